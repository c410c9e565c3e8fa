// SQL functions that carry out an action. The action runs once when the statement is executed, however many
// rows the statement has, and never when the statement is prepared or explained. The functions are refused in
// views, triggers, stored functions and generated columns.
//
// Invariant
//   RIGHT-1  An SQL function asks for every privilege that other statements with the same effect need, before
//   it
//            says whether anything exists. Test: mysql-test/atoll/t/function_rights.test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

class Create_func;

namespace atoll::plugin {

// The global privilege that the user of a function needs. SUPER is enough for each.
enum class ActionPrivilege : uint8_t {
  kReload,
  // As for PURGE BINARY LOGS: after the action, nobody can go back to a state of the past.
  kBinlogAdmin,
};

// What one of these functions does, and who may call it. Each function has one, which is never
// destroyed.
struct SqlAction {
  const char *name;  // in lower case
  unsigned arguments;
  // The function returns the argument with this number, from 0. If it equals `arguments`, the function
  // returns the first word of *what.
  unsigned result;
  ActionPrivilege privilege;
  const char *null_refusal;  // the error message when an argument is NULL
  // Carries out the action. `what`: a text for the user about what was done, which becomes a note of the
  // statement. The function may also report an SQL error itself.
  Status (*run)(const std::vector<std::string> &arguments, std::string *what);
};

// Makes the SQL function that carries out `action`, which must exist for as long as the library is loaded.
Create_func *action_function(const SqlAction *action);

}  // namespace atoll::plugin
