// Clauses of CREATE TABLE and ALTER TABLE that the engine cannot serve. README has the list for users.
// Tests: refusals.test, options.test.
#pragma once

#include "base/status.h"

class THD;
struct HA_CREATE_INFO;
struct TABLE;

namespace atoll::handler {

// True for CREATE TABLE and ALTER TABLE: their clauses are those of the table that is created.
bool defines_table(const THD *thd);

// FULLTEXT and SPATIAL are always refused. FOREIGN KEY is refused too, unless the user has asked for it to be
// ignored (atoll_ignore_foreign_keys); then there is a warning. Errors: kInvalid, with a text that names the
// index or the foreign key.
Status refuse_unsupported(THD *thd, const TABLE *form);

// Refuses ENCRYPTED=YES, so that a user who moves an encrypted table here learns that it would no longer be
// encrypted: the server itself keeps an option that the engine does not know, without a warning. Errors:
// kInvalid.
Status refuse_encryption(const HA_CREATE_INFO *info);

}  // namespace atoll::handler
