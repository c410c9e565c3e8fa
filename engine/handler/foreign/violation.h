// Why a constraint FOREIGN KEY refuses a row, for the server's messages.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll::handler {

// What the last Status of the code kForeignKey was about. The session holds it and not the handler, because
// the constraint may belong to another table of a cascade.
struct ForeignViolation {
  int error = 0;                                 // HA_ERR_NO_REFERENCED_ROW and the like
  std::string constraint = {};                   // for errors 1451 and 1452: as their texts show it
  std::string child_table = {}, child_key = {};  // for errors 1761 and 1762
};

}  // namespace atoll::handler
