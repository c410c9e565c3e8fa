// SQL functions that do something: each runs once when its statement is executed, whatever number of rows it
// stands in, and never when the statement is prepared or explained. It needs RELOAD or SUPER, and is refused
// in views, triggers, stored functions and generated columns.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

class Create_func;

namespace atoll::plugin {

struct SqlAction {
  const char *name;  // in lower case
  unsigned arguments;
  unsigned result;           // the number of the argument that it returns
  const char *null_refusal;  // for an argument that is NULL
  // `what` says what was done, for people: a note of the statement. May report an SQL error by itself, too.
  Status (*run)(const std::vector<std::string> &arguments, std::string *what);
};

// `action` must live as long as the library.
Create_func *action_function(const SqlAction *action);

}  // namespace atoll::plugin
