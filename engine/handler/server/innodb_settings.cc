#include "handler/server.h"

#include <mysqld.h>
#include <set_var.h>

#include "handler/server/innodb_settings.h"

namespace atoll::handler {

std::optional<unsigned long> innodb_lock_wait_timeout_s(THD *thd) {
  // InnoDB is built into the server, so its variables stay as they are once the server has started. Before
  // that they may not be there yet.
  if (!mysqld_server_started) return std::nullopt;
  // The last argument is not what its name in the header says: only with true an unknown name is no SQL
  // error.
  static const sys_var *const variable = find_sys_var(thd, "innodb_lock_wait_timeout", 0, true);
  if (variable == nullptr || variable->show_type() != SHOW_UINT) return std::nullopt;
  return *reinterpret_cast<const unsigned *>(variable->value_ptr(thd, OPT_SESSION, &null_clex_str));
}

}  // namespace atoll::handler
