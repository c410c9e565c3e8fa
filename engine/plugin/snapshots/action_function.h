// SQL functions that carry out an action. The action runs once when the statement is executed, however many
// rows the statement has, and never when the statement is prepared or explained. The user needs RELOAD or
// SUPER. The functions are refused in views, triggers, stored functions and generated columns.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

class Create_func;

namespace atoll::plugin {

struct SqlAction {
  const char *name;  // in lower case
  unsigned arguments;
  unsigned result;           // the function returns the argument with this number, from 0
  const char *null_refusal;  // the error message when an argument is NULL
  // Carries out the action. `what`: a text for the user about what was done, which becomes a note of the
  // statement. The function may also report an SQL error itself.
  Status (*run)(const std::vector<std::string> &arguments, std::string *what);
};

// Makes the SQL function that carries out `action`, which must exist for as long as the library is loaded.
Create_func *action_function(const SqlAction *action);

}  // namespace atoll::plugin
