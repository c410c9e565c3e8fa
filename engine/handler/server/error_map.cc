// See error_map.h.
#include "handler/server.h"

#include "handler/server/error_map.h"

#include <string>

#include "base/log.h"
#include "base/messages/lost_object.h"
#include "engine/running.h"

namespace atoll::handler {

// The switch has no default, so that a new Code does not compile until its meaning for SQL is decided here.
// kUnavailable must never become HA_ERR_CRASHED, because the server would then ask for a repair of a healthy
// table.
// Source: MariaDB 10.11 include/my_base.h.
int to_ha_error(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kNotFound:
      return HA_ERR_KEY_NOT_FOUND;
    case Code::kDuplicate:
      return HA_ERR_FOUND_DUPP_KEY;
    case Code::kDeadlock:
      return HA_ERR_LOCK_DEADLOCK;
    case Code::kLockTimeout:
      return HA_ERR_LOCK_WAIT_TIMEOUT;
    case Code::kInterrupted:
      return HA_ERR_ABORTED_BY_USER;
    case Code::kUnavailable:
      return HA_ERR_NO_CONNECTION;
    case Code::kNoSpace:
      return HA_ERR_RECORD_FILE_FULL;
    case Code::kFenced:
      return HA_ERR_TABLE_READONLY;
    case Code::kReadOnly:
      return HA_ERR_TABLE_READONLY;
    case Code::kInvalid:
      return HA_ERR_UNSUPPORTED;
    case Code::kCorruption:
      return HA_ERR_CRASHED;
    case Code::kBug:
      return HA_ERR_INTERNAL_ERROR;
    case Code::kNoMemory:
      return HA_ERR_OUT_OF_MEM;
    case Code::kForeignKey:
      return HA_ERR_ROW_IS_REFERENCED;
  }
  return HA_ERR_INTERNAL_ERROR;
}

namespace {

// Gives the statement the whole message as a warning. push_warning_printf() would cut it.
void warn(THD *thd, const Status &status) {
  if (thd == nullptr) return;
  push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG,
               (std::string("ATOLL: ") + status.message()).c_str());
}

}  // namespace

// The server's text for HA_ERR_CRASHED would leave out the name of the object, and offer a repair.
int to_ha_error(const Status &status) {
  return is_lost_object(status) ? HA_ERR_FILE_TOO_SHORT : to_ha_error(status.code());
}

namespace {

// On a reader, the first error of a statement says who writes; that the table is read-only would say too
// little. On a writer, the table is what matters, and the reason is a warning.
void report_read_only(THD *thd, const Status &status) {
  const engine::Engine *running = engine::running();
  if (running == nullptr || running->views() == nullptr) return warn(thd, status);
  my_printf_error(ER_OPTION_PREVENTS_STATEMENT, "ATOLL: %s", MYF(0), status.message());
}

}  // namespace

int report(THD *thd, const Status &status) {
  const int error = to_ha_error(status);
  switch (status.code()) {
    case Code::kOk:
    case Code::kNotFound:
    case Code::kDuplicate:
    case Code::kInterrupted:
    case Code::kForeignKey:
      break;
    case Code::kDeadlock:
      if (thd) thd->mark_transaction_to_rollback(true);
      break;
    case Code::kLockTimeout:
      if (thd) thd->mark_transaction_to_rollback(false);
      break;
    case Code::kUnavailable:
    case Code::kNoSpace:
    case Code::kFenced:
    case Code::kInvalid:
    case Code::kNoMemory:
      warn(thd, status);
      break;
    case Code::kReadOnly:
      report_read_only(thd, status);
      break;
    case Code::kCorruption:
    case Code::kBug:
      if (!is_lost_object(status)) log_error(status.message());
      warn(thd, status);
      break;
  }
  return error;
}

}  // namespace atoll::handler
