// The latest error of a constraint FOREIGN KEY, for SHOW ENGINE ATOLL STATUS: a clause that does not fit its
// tables, or rows that violate a constraint. InnoDB's status has it, too, and users look for it there.
#pragma once

#include <cstdint>
#include <string>

#include "base/namespace.h"

namespace atoll::handler {

struct ForeignKeyError {
  uint64_t found_us = 0;  // since 1970; 0: there was none since the start
  std::string text;
};

// Threads: any.
void note_foreign_key_error(const std::string &text);
ForeignKeyError latest_foreign_key_error();

}  // namespace atoll::handler
