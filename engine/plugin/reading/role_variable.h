// SET GLOBAL atoll_role.
#pragma once

#include <mysql/plugin.h>

namespace atoll::plugin {

// The `check` function of the variable: carries the change out. *role: the position of the value in `roles`.
// Returns 0 when the server has the role now; otherwise an error was raised, and the role is as before. Only
// a reader can change its role while it runs.
int check_role_change(MYSQL_THD thd, const TYPELIB &roles, st_mysql_value *value, unsigned long *role);

}  // namespace atoll::plugin
