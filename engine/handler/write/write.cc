// ha_atoll: INSERT, UPDATE, DELETE of one row. The RowWriter (table/write/row_writer.h) writes the row.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/foreign/foreign_keys.h"
#include "handler/server/error_map.h"
#include "handler/ddl/table_name.h"
#include "handler/foreign/alter.h"
#include "handler/write/virtual_columns.h"
#include "table/copy/bulk_copy.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;

int ha_atoll::write_row(const uchar *record) {
  if (table->next_number_field && record == table->record[0])
    if (int error = update_auto_increment()) return error;
  Status status;
  if (bulk_) {
    status = bulk_->add(record);
    if (status.code() == Code::kDuplicate) show_copy_duplicate(bulk_.get());
    if (status.ok()) raise_auto_increment(record);
  } else if (is_sequence()) {
    status = write_apart([&] { return write_new_row(record); });
  } else {
    session_->before_write();
    status = write_new_row(record);
  }
  return status.ok() ? 0 : fail(status);
}

// Writes the row of a sequence in a transaction of its own. So a number is not given out again when the
// transaction that took it rolls back, and other connections do not wait for that transaction. The write is
// synced with the next commit: the transaction that takes the number must commit to keep it. There may be no
// session yet: CREATE TEMPORARY SEQUENCE writes the first row without locking the table.
Status ha_atoll::write_apart(const std::function<Status()> &write) {
  if (session_ == nullptr) {
    ATOLL_RETURN_IF_ERROR(atoll::engine::ready());
    session_ = ah::Session::of(ha_thd(), true);
  }
  apart_ = atoll::engine::running()->transactions()->begin(ha_thd());
  Status status = write();
  if (status.ok()) status = apart_->commit(false);
  if (status.ok() && !is_temporary()) ah::note_update_times({{layout()->def().id, 0}});
  apart_.reset();
  return status;
}

Status ha_atoll::write_new_row(const uchar *record) {
  if (indexes_virtual_text_) ah::compute_virtual_text(table, record, nullptr);
  uint64_t hidden_id = 0;
  if (layout()->hidden_primary()) ATOLL_RETURN_IF_ERROR(share_->take_hidden_id(*layout(), &hidden_id));
  ATOLL_RETURN_IF_ERROR(note_written(writer_.insert(record, hidden_id)));
  raise_auto_increment(record);
  count_rows(1);
  return Status::Ok();
}

// Called for each row that was written, with 0 if the number of rows stays the same.
void ha_atoll::count_rows(int64_t added) {
  if (added != 0) share_->rows += added;
  // The row of a sequence is committed at once, so no rollback has to take it back from the count.
  if (!is_temporary() && !is_sequence()) session_->count_rows(layout()->def().id, added);
}

// Takes over the result of the writer. If an online build runs, the session notes it, because the writer may
// have logged a change for it.
//
// After other errors than kDuplicate and kForeignKey the writer may have written a part of the row. A handler
// for errors in a trigger or stored function must then not go on: the statement that calls it must end, so
// that it is rolled back.
Status ha_atoll::note_written(const Status &status) {
  if (status.code() == Code::kDuplicate)
    session_->duplicate_index = static_cast<uint>(writer_.duplicate_index());
  else if (!status.ok() && status.code() != Code::kForeignKey)
    ha_thd()->mark_transaction_to_rollback(false);
  if (online_build_) session_->note_online_build(online_build_);
  return status;
}

int ha_atoll::update_row(const uchar *old_record, const uchar *new_record) {
  Status status;
  bool is_same = false;
  if (is_sequence()) {
    status = write_apart([&] { return update_existing_row(old_record, new_record, &is_same); });
  } else {
    session_->before_write();
    status = update_existing_row(old_record, new_record, &is_same);
  }
  if (!status.ok()) return fail(status);
  return is_same ? HA_ERR_RECORD_IS_THE_SAME : 0;
}

// *is_same: whether both rows are the same, so that nothing was written.
Status ha_atoll::update_existing_row(const uchar *old_record, const uchar *new_record, bool *is_same) {
  if (indexes_virtual_text_) ah::compute_virtual_text(table, old_record, new_record);
  const auto write = [&] {
    auto updated = at::RowWriter::Updated::kChanged;
    const Status status = writer_.update(old_record, new_record, open_table_.hidden_id(), &updated);
    *is_same = status.ok() && updated == at::RowWriter::Updated::kSame;
    return *is_same ? status : note_written(status);
  };
  ATOLL_RETURN_IF_ERROR(
      constraints_ == nullptr
          ? write()
          : constraints_->change({.old_record = old_record, .new_record = new_record}, write));
  if (*is_same) return Status::Ok();
  raise_auto_increment(new_record);
  count_rows(0);
  return Status::Ok();
}

int ha_atoll::delete_row(const uchar *record) {
  session_->before_write();
  const Status status = remove_row(record);
  return status.ok() ? 0 : fail(status);
}

Status ha_atoll::remove_row(const uchar *record) {
  if (indexes_virtual_text_) ah::compute_virtual_text(table, record, nullptr);
  const auto write = [&] {
    ATOLL_RETURN_IF_ERROR(note_written(writer_.remove(record, open_table_.hidden_id())));
    count_rows(share_->rows > 0 ? -1 : 0);
    return Status::Ok();
  };
  return constraints_ == nullptr ? write() : constraints_->change({.old_record = record}, write);
}

// ---- Filling the new table of ALTER ... COPY and CREATE ... SELECT -------------------------------

namespace {

// Returns the function that gives a copy its own family when it gets too large for the shared one.
auto move_to_own_family(ah::Share *share) {
  return [share](std::shared_ptr<const at::Layout> *layout) {
    atoll::engine::Engine *running = atoll::engine::running();
    atoll::catalog::TablePtr def;
    ATOLL_RETURN_IF_ERROR(running->catalog()->move_to_own_family((*layout)->def().id, &def));
    *layout = (*layout)->moved(def, running->database()->find_family(def->family_id));
    share->set_layout(*layout);
    return Status::Ok();
  };
}

}  // namespace

// Begins a bulk copy if ALTER or CREATE ... SELECT fills a new table. The server ignores errors at the end of
// a partition copy, so partitions that are reorganised are filled in the ordinary way, row by row.
void ha_atoll::begin_copy(bool ignore_duplicates) {
  bulk_.reset();
  const bool internal = ah::is_internal(ah::parse_table_name(table_share->normalized_path.str).table);
  const bool creating_select = ha_thd()->lex->sql_command == SQLCOM_CREATE_TABLE;
  if (is_temporary() || is_sequence() || !(internal || creating_select)) return;
  bool has_unique = !layout()->hidden_primary();
  for (size_t i = 0; i < layout()->index_count(); i++) has_unique |= layout()->index(i).unique;
  if (ignore_duplicates && has_unique) return;
  for (uint i = 0; i < table_share->keys; i++)
    if (table->key_info[i].algorithm == HA_KEY_ALG_LONG_HASH) return;  // the server reads rows to check it
  // To check WITHOUT OVERLAPS, too, the server reads the rows of the table.
  if (table_share->period.unique_keys != 0) return;
  atoll::engine::Engine *running = atoll::engine::running();
  at::BulkCopy::Target target{running->database(), running->database(),
                              [running] { return running->settings().flush_at_commit(); },
                              move_to_own_family(share_)};
  bulk_ = std::make_unique<at::BulkCopy>(std::move(target), layout(),
                                         ah::Session::of(ha_thd(), true)->sort_budget());
}

void ha_atoll::show_copy_duplicate(at::BulkCopy *bulk) {
  session_->duplicate_index = static_cast<uint>(bulk->duplicate_index());
  restore_record(table, s->default_values);  // columns that stay unknown show no other row's values
  bulk->show_duplicate(table->record[0], &duplicate_row_);
}

int ha_atoll::end_copy() {
  if (!bulk_) return 0;
  std::unique_ptr<at::BulkCopy> bulk = std::move(bulk_);
  THD *thd = ha_thd();
  const auto progress = [thd](double) { return !atoll::is_statement_killed(thd); };
  std::shared_ptr<const Layout> filled = layout();
  const Status status = bulk->finish(progress, &filled);
  open_table_.set_layout(std::move(filled));
  if (status.code() == Code::kDuplicate) show_copy_duplicate(bulk.get());
  if (!status.ok()) return fail(status);
  if (ah::refuse_orphans_of_copy(table, layout()->def(), layout()->family())) {
    shown_error_ = HA_ERR_NO_REFERENCED_ROW;
    return shown_error_;
  }
  share_->rows = static_cast<int64_t>(bulk->rows());
  ah::note_update_times({{layout()->def().id, 0}});
  if (layout()->def().id != 0 && share_->next_auto_increment > 0)
    (void)atoll::engine::running()->catalog()->set_auto_increment(layout()->def().id,
                                                                  share_->next_auto_increment);
  const Status published = atoll::engine::running()->gate().after_ddl();
  return published.ok() ? 0 : fail(published);
}
