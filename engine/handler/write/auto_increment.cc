// ha_atoll: AUTO_INCREMENT.
//
// The counter is in memory, shared by all handlers of a table. It is stored with the rows of each committing
// transaction, and loaded as the largest of what is stored, of the values in the table, and of those that
// open and prepared transactions have written.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/server/error_map.h"
#include "handler/ddl/temporary_tables.h"
#include "handler/write/next_number.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

namespace {

// Whether the statement gets as many numbers at once as the server asks for. UPDATE and DELETE get one at a
// time: with FOR PORTION OF they insert rows for the periods that are left, at most two for each changed row.
// The server's guess of how many numbers it needs doubles each time, and would leave numbers unused.
bool inserts_rows(THD *thd) {
  const int command = thd_sql_command(thd);
  return command != SQLCOM_UPDATE && command != SQLCOM_DELETE;
}

}  // namespace

Status ha_atoll::load_auto_increment() {
  if (share_->next_auto_increment != 0) return Status::Ok();
  atoll::MutexLock guard(share_->auto_increment_mutex);
  if (share_->next_auto_increment != 0) return Status::Ok();
  uint64_t next = 0;
  if (is_temporary())
    next = ah::TemporaryTables::auto_increment(table_share->normalized_path.str);
  else if (bound_view_.is_bound())
    next = bound_view_.catalog().auto_increment(layout()->def().id);
  else if (!open_table_.is_past())
    next = atoll::engine::running()->catalog()->auto_increment(layout()->def().id);
  if (table_share->next_number_keypart == 0) {
    uint64_t largest = 0;
    ATOLL_RETURN_IF_ERROR(ah::largest_number(*layout(), table, &largest));
    next = std::max(next, ah::number_after(largest));
  }
  share_->next_auto_increment = std::max<uint64_t>(next, 1);
  return Status::Ok();
}

// The server asks this when it is about to log a statement as text. INSERT ... VALUES draws all its numbers
// at once, and the log has the first of them. A statement that draws its numbers row by row is unsafe,
// because other statements may draw numbers in between.
bool ha_atoll::autoinc_lock_mode_stmt_unsafe() const noexcept {
  switch (thd_sql_command(ha_thd())) {
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_CREATE_TABLE:
    case SQLCOM_LOAD:
      return true;
    case SQLCOM_UPDATE:
    case SQLCOM_DELETE:
      return ha_thd()->lex->period_conditions.is_set();  // FOR PORTION OF inserts rows, which draw numbers
    default:
      return false;
  }
}

void ha_atoll::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                  ulonglong *reserved) {
  // KEY(a, id) has a counter for each value of `a`: the server reads the largest number from the index.
  if (table_share->next_number_keypart != 0) {
    ::handler::get_auto_increment(offset, increment, wanted, first, reserved);
    return;
  }
  if (Status status = load_auto_increment(); !status.ok()) {
    fail(status);
    *first = ULONGLONG_MAX;
    return;
  }
  const uint64_t largest = table->next_number_field->get_max_int_value();
  uint64_t current = share_->next_auto_increment;
  for (;;) {
    // The smallest value >= current of the form offset + n * increment.
    uint64_t value = current;
    if (increment > 1) {
      const uint64_t base = offset > increment ? 0 : offset;
      value = current <= base ? base : base + (current - base + increment - 1) / increment * increment;
    }
    if (value < current) {
      *first = ULONGLONG_MAX;  // the server reports that no value is left
      return;
    }
    if (value > largest) {
      *first = value;  // the server reports that it is out of range
      *reserved = 1;
      return;
    }
    const uint64_t count = inserts_rows(ha_thd()) ? std::max<uint64_t>(wanted, 1) : 1;
    const uint64_t span = count > (largest - value) / increment ? largest - value + 1 : count * increment;
    const uint64_t next = value + span < value ? UINT64_MAX : value + span;
    if (share_->next_auto_increment.compare_exchange_weak(current, next)) {
      // The server rounds the number up itself, and for that it adds the increment to it. Near the end of
      // BIGINT UNSIGNED it gets the number before rounding, so that the sum does not overflow.
      *first = value > UINT64_MAX - increment ? current : value;
      *reserved = count;
      if (!is_temporary() && session_) session_->note_auto_increment(layout()->def().id, next);
      return;
    }
  }
}

// Raises the counter above a value that the user has given.
void ha_atoll::raise_auto_increment(const uchar *record) {
  Field *field = table->found_next_number_field;
  if (field == nullptr || (record != table->record[0] && record != table->record[1])) return;
  if (!load_auto_increment().ok()) return;
  const uint64_t given = ah::number_in(field, record - table->record[0]);
  if (given == 0) return;
  const uint64_t next = ah::number_after(given);
  uint64_t current = share_->next_auto_increment;
  while (current < next && !share_->next_auto_increment.compare_exchange_weak(current, next)) {
  }
  if (!is_temporary() && session_ && current < next) session_->note_auto_increment(layout()->def().id, next);
}

int ha_atoll::reset_auto_increment(ulonglong value) {
  share_->next_auto_increment = std::max<uint64_t>(value, 1);
  if (is_temporary()) return 0;
  const Status status = atoll::engine::running()->catalog()->set_auto_increment(layout()->def().id,
                                                                                share_->next_auto_increment);
  return status.ok() ? 0 : fail(status);
}

void ha_atoll::update_create_info(HA_CREATE_INFO *info) {
  if (info->used_fields & HA_CREATE_USED_AUTO) return;
  if (table->found_next_number_field == nullptr) return;
  if (!load_auto_increment().ok()) return;
  info->auto_increment_value = share_->next_auto_increment;
  stats.auto_increment_value = share_->next_auto_increment;
}
