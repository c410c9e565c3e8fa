// Refuses clauses of CREATE TABLE and ALTER TABLE that the engine cannot serve. The list for
// users is docs/limitations.md. Tests: refusals.test, options.test.
#pragma once

#include "base/status.h"

class THD;
struct HA_CREATE_INFO;
struct TABLE;

namespace atoll::handler {

// True for CREATE TABLE and ALTER TABLE. Only then do the clauses of the statement belong to the table that
// create() makes.
bool defines_table(const THD *thd);

// Refuses FULLTEXT and SPATIAL indexes. Errors: kInvalid, with a text that names the index.
Status refuse_unsupported(const TABLE *form);

// Refuses ENCRYPTED=YES, so that a user who moves an encrypted table to this engine learns that the table
// would no longer be encrypted. The server itself accepts an option that the engine does not know, without a
// warning. Errors: kInvalid.
Status refuse_encryption(const HA_CREATE_INFO *info);

}  // namespace atoll::handler
