// See callback.h.
#include "handler/server.h"

#include "handler/server/callback.h"

#include <log.h>

#include "handler/server/error_map.h"
#include "handler/session/session.h"

namespace atoll::handler {

void give_up_transaction() noexcept {
  THD *thd = current_thd;
  if (thd == nullptr) return;
  thd->mark_transaction_to_rollback(true);
  if (Session *session = Session::of(thd, false)) session->note_exception();
}

int fails_by_code(const Status &status) noexcept {
  give_up_transaction();
  guarded_or_nothing([&] { report(current_thd, status); });  // logging a bug may fail for lack of memory
  return to_ha_error(status.code());
}

void fails(const Status &status) noexcept {
  const uint error = status.code() == Code::kNoMemory ? ER_OUT_OF_RESOURCES : ER_GET_ERRMSG;
  my_printf_error(error, "ATOLL: %s", MYF(0), status.message());
}

// Does not use log_error(), which keeps its messages and so needs memory.
void is_logged(const Status &status) noexcept { sql_print_error("ATOLL: %s", status.message()); }

}  // namespace atoll::handler
