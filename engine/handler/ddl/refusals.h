// Clauses of CREATE TABLE and ALTER TABLE that the engine cannot serve. README has the list for users.
// Tests: refusals.test, options.test.
#pragma once

#include "base/status.h"

class THD;
struct HA_CREATE_INFO;
struct TABLE;

namespace atoll::handler {

// True for statements whose clauses are those of the table that is created.
bool defines_table(const THD *thd);

// FULLTEXT and SPATIAL are refused, never ignored; FOREIGN KEY is ignored, with a warning, by those who asked
// for it only. Errors: kInvalid, with a text that names the table.
Status refuse_unsupported(THD *thd, const TABLE *form);

// A user who moves an encrypted table here is told that it would not be one any more: the server keeps an
// option that the engine does not know, and says nothing. Errors: kInvalid.
Status refuse_encryption(const HA_CREATE_INFO *info);

}  // namespace atoll::handler
