// ha_atoll: INSERT, UPDATE, DELETE of one row.
//
// All unique keys are locked and checked before the first write of a row, so that a duplicate undoes
// nothing. A changed row also removes the index entries of the version its transaction's snapshot shows:
// otherwise an index scan at that snapshot would return the row twice.
#include "handler/ha_atoll.h"

#include <algorithm>

#include "engine/running.h"
#include "handler/write/bulk_copy.h"
#include "handler/server/error_map.h"
#include "handler/write/large_rows.h"
#include "handler/ddl/table_name.h"
#include "handler/write/virtual_columns.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace txn = atoll::txn;

namespace {

// Waits until nobody else has locked a range with the new entry in it. Done before the entry's key is locked:
// who looked for it, found none and so holds the range must be able to insert it.
Status wait_for_ranges(txn::LockOwner *owner, const txn::LockKey &entry, const txn::LockWait &wait) {
  txn::LockTable *locks = atoll::engine::running()->transactions()->locks();
  if (!locks->has_ranges(entry)) return Status::Ok();
  return locks->lock_insert(owner, entry, wait, [] { return Status::Ok(); });
}

}  // namespace

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

// The row of a sequence belongs to no transaction: a number that was given out is not given out again when
// its user rolls back, and nobody waits for that user. It is synced with the next commit, which whoever uses
// the number must make to keep it. CREATE TEMPORARY SEQUENCE writes the first row without locking the table.
Status ha_atoll::write_apart(const std::function<Status()> &write) {
  if (session_ == nullptr) {
    ATOLL_RETURN_IF_ERROR(atoll::engine::ready());
    session_ = ah::Session::of(ha_thd(), true);
  }
  apart_ = atoll::engine::running()->transactions()->begin(ha_thd());
  Status status = write();
  if (status.ok()) status = apart_->commit(false);
  apart_.reset();
  return status;
}

Status ha_atoll::write_new_row(const uchar *record) {
  const Layout &layout = *layout_;
  if (indexes_virtual_text_) ah::compute_virtual_text(table, record, nullptr);
  ATOLL_RETURN_IF_ERROR(ah::check_row_size(layout.row(), record));
  uint64_t hidden_id = 0;
  if (layout.hidden_primary()) ATOLL_RETURN_IF_ERROR(next_hidden_id(&hidden_id));
  layout.primary_key(record, hidden_id, &primary_key_);
  // No other statement can ask for a new id, but a scan that locks must be able to wait for the row.
  if (layout.hidden_primary())
    ATOLL_RETURN_IF_ERROR(reader_.locks().lock(primary_key_, atoll::table::RowLock::kExclusive, nullptr));
  ATOLL_RETURN_IF_ERROR(check_unique(record, primary_key_, nullptr, nullptr));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(primary_key_, {}));

  const bool in_pieces = goes_in_pieces(record);
  packed_row_.clear();
  if (!in_pieces) layout.row().pack(record, &packed_row_);
  ATOLL_RETURN_IF_ERROR(put_row(record, primary_key_, in_pieces, true));
  ATOLL_RETURN_IF_ERROR(put_secondary_entries(record, primary_key_));
  reader_.set_primary_key(primary_key_);
  raise_auto_increment(record);
  if (share_->rows >= 0) share_->rows++;
  return Status::Ok();
}

Status ha_atoll::put_secondary_entries(const uchar *record, const std::string &primary_key) {
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (layout_->is_primary(i)) continue;
    bool has_null = false;
    layout_->secondary_entry(i, record, primary_key, &entry_key_, &entry_value_, &has_null);
    ATOLL_RETURN_IF_ERROR(transaction()->insert(layout_->family(), entry_key_, entry_value_,
                                                reader_.table().lock_wait(), unique_length(i, entry_key_)));
  }
  return log_online(nullptr, {}, record, primary_key);
}

// What Transaction::put() wants to know of an entry. 0 also for entries with NULL, which are never looked
// for.
size_t ha_atoll::unique_length(size_t index, const std::string &entry_key) const {
  return layout_->index(index).unique ? layout_->unique_length(index, entry_key) : 0;
}

// An index is being built while this statement runs: its build must know.
Status ha_atoll::log_online(const uchar *old_record, const std::string &old_primary_key,
                            const uchar *new_record, const std::string &primary_key) {
  if (!online_build_) return Status::Ok();
  session_->note_online_build(online_build_);
  return online_build_->log(transaction(), {old_record, &old_primary_key}, {new_record, &primary_key});
}

// Locks and checks every unique key that the new row would take. For an update, keys that stay the same are
// skipped. Errors: kDuplicate with Session::duplicate_index set; of the locks.
Status ha_atoll::check_unique(const uchar *record, const std::string &primary_key,
                              const std::string *old_primary_key, const uchar *old_record) {
  const Layout &layout = *layout_;
  if (!layout.hidden_primary() && (old_primary_key == nullptr || *old_primary_key != primary_key)) {
    ATOLL_RETURN_IF_ERROR(wait_for_ranges(transaction()->lock_owner(), {layout.family()->id(), primary_key},
                                          reader_.table().lock_wait()));
    ATOLL_RETURN_IF_ERROR(reader_.locks().lock(primary_key, atoll::table::RowLock::kExclusive, nullptr));
    const Status status =
        transaction()->find_locked(layout.family(), primary_key, layout.primary_index().end, &absent_keys_);
    if (status.ok()) {
      session_->duplicate_index = table_share->primary_key;
      return Status(Code::kDuplicate, "");
    }
    if (status.code() != Code::kNotFound) return status;
  }
  for (size_t i = 0; i < layout.index_count(); i++) {
    if (static_cast<int>(i) == layout.primary() || !layout.index(i).unique) continue;
    bool has_null = false;
    layout.secondary_entry(i, record, primary_key, &entry_key_, nullptr, &has_null);
    if (has_null) continue;
    size_t length = 0;
    ATOLL_RETURN_IF_ERROR(layout.user_part_length(i, entry_key_, &length));
    if (old_record != nullptr) {
      layout.secondary_entry(i, old_record, *old_primary_key, &old_entry_key_, nullptr, &has_null);
      if (!has_null && old_entry_key_.compare(0, length, entry_key_, 0, length) == 0) continue;
    }
    ATOLL_RETURN_IF_ERROR(wait_for_ranges(transaction()->lock_owner(), {layout.family()->id(), entry_key_},
                                          reader_.table().lock_wait()));
    entry_key_.resize(length);
    ATOLL_RETURN_IF_ERROR(check_unique_entry(i, entry_key_));
  }
  return Status::Ok();
}

// No entry may start with `start`, the user's parts of unique index `index`. The row of one that does is
// locked before it counts: its transaction may be removing it, which this one cannot see.
Status ha_atoll::check_unique_entry(size_t index, const std::string &start) {
  ATOLL_RETURN_IF_ERROR(reader_.locks().lock(start, atoll::table::RowLock::kExclusive, nullptr));
  std::string locked, entry, primary_key;
  for (;;) {
    ATOLL_RETURN_IF_ERROR(find_unique_entry(start, &entry));
    if (entry.empty()) return Status::Ok();
    if (entry == locked) break;
    ATOLL_RETURN_IF_ERROR(layout_->primary_of_entry(index, entry, &primary_key));
    ATOLL_RETURN_IF_ERROR(reader_.locks().lock(primary_key, atoll::table::RowLock::kShared, nullptr));
    locked = entry;
  }
  session_->duplicate_index = static_cast<uint>(index);
  return Status(Code::kDuplicate, "");
}

// *entry: the newest entry that starts with `start`; empty if there is none.
Status ha_atoll::find_unique_entry(const std::string &start, std::string *entry) {
  txn::ScanOptions options;
  options.lower = start;
  options.upper = atoll::codec::key_after_prefix(start);
  options.unique_start = true;
  const std::unique_ptr<rocksdb::Iterator> it =
      transaction()->scan(layout_->family(), txn::ReadAt::kLatest, options);
  it->Seek(start);
  entry->clear();
  if (it->Valid()) entry->assign(it->key().data(), it->key().size());
  return atoll::lsm::from_rocksdb(it->status());
}

int ha_atoll::update_row(const uchar *old_record, const uchar *new_record) {
  Status status;
  if (is_sequence()) {
    status = write_apart([&] { return update_existing_row(old_record, new_record); });
  } else {
    session_->before_write();
    status = update_existing_row(old_record, new_record);
  }
  if (status.code() == Code::kNotFound) return HA_ERR_RECORD_IS_THE_SAME;
  return status.ok() ? 0 : fail(status);
}

// kNotFound: nothing to change.
Status ha_atoll::update_existing_row(const uchar *old_record, const uchar *new_record) {
  const Layout &layout = *layout_;
  if (indexes_virtual_text_) ah::compute_virtual_text(table, old_record, new_record);
  ATOLL_RETURN_IF_ERROR(ah::check_row_size(layout.row(), new_record));
  const uint64_t hidden_id =
      layout.hidden_primary()
          ? ah::hidden_id_of(std::string_view(reader_.primary_key()).substr(atoll::codec::kKeyStartLength))
          : 0;
  layout.primary_key(old_record, hidden_id, &old_primary_key_);
  layout.primary_key(new_record, hidden_id, &primary_key_);
  ATOLL_RETURN_IF_ERROR(pack_old_row(old_record, old_primary_key_));
  const bool in_pieces = goes_in_pieces(new_record);
  packed_row_.clear();
  if (!in_pieces) layout.row().pack(new_record, &packed_row_);
  const bool same_row =
      in_pieces ? are_same_large_row(old_record, new_record) : packed_row_ == old_packed_row_;
  if (same_row && primary_key_ == old_primary_key_) return Status(Code::kNotFound, "");

  ATOLL_RETURN_IF_ERROR(check_unique(new_record, primary_key_, &old_primary_key_, old_record));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(old_primary_key_, old_packed_row_));
  if (primary_key_ != old_primary_key_) {
    ATOLL_RETURN_IF_ERROR(transaction()->remove(layout.family(), old_primary_key_));
    ATOLL_RETURN_IF_ERROR(remove_pieces(old_primary_key_, 0));
    ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(primary_key_, {}));
  }
  ATOLL_RETURN_IF_ERROR(put_row(new_record, primary_key_, in_pieces, primary_key_ != old_primary_key_));
  ATOLL_RETURN_IF_ERROR(update_secondary_entries(old_record, new_record, old_primary_key_, primary_key_));
  reader_.set_primary_key(primary_key_);
  raise_auto_increment(new_record);
  return Status::Ok();
}

Status ha_atoll::update_secondary_entries(const uchar *old_record, const uchar *new_record,
                                          const std::string &old_primary_key,
                                          const std::string &primary_key) {
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (layout_->is_primary(i)) continue;
    bool has_null = false;
    layout_->secondary_entry(i, old_record, old_primary_key, &old_entry_key_, &old_entry_value_, &has_null);
    layout_->secondary_entry(i, new_record, primary_key, &entry_key_, &entry_value_, &has_null);
    const bool same_key = old_entry_key_ == entry_key_;
    // Unchanged entries too are written when the snapshot does not show them, or lost them above.
    if (same_key && old_entry_value_ == entry_value_ && !snapshot_differs_) continue;
    if (same_key) {
      ATOLL_RETURN_IF_ERROR(
          transaction()->put(layout_->family(), entry_key_, entry_value_, unique_length(i, entry_key_)));
      continue;
    }
    ATOLL_RETURN_IF_ERROR(
        transaction()->remove(layout_->family(), old_entry_key_, unique_length(i, old_entry_key_)));
    ATOLL_RETURN_IF_ERROR(transaction()->insert(layout_->family(), entry_key_, entry_value_,
                                                reader_.table().lock_wait(), unique_length(i, entry_key_)));
  }
  return log_online(old_record, old_primary_key, new_record, primary_key);
}

int ha_atoll::delete_row(const uchar *record) {
  session_->before_write();
  const Status status = remove_row(record);
  return status.ok() ? 0 : fail(status);
}

Status ha_atoll::remove_row(const uchar *record) {
  const Layout &layout = *layout_;
  if (indexes_virtual_text_) ah::compute_virtual_text(table, record, nullptr);
  const uint64_t hidden_id =
      layout.hidden_primary()
          ? ah::hidden_id_of(std::string_view(reader_.primary_key()).substr(atoll::codec::kKeyStartLength))
          : 0;
  layout.primary_key(record, hidden_id, &old_primary_key_);
  ATOLL_RETURN_IF_ERROR(pack_old_row(record, old_primary_key_));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(old_primary_key_, old_packed_row_));
  ATOLL_RETURN_IF_ERROR(transaction()->remove(layout.family(), old_primary_key_));
  ATOLL_RETURN_IF_ERROR(remove_pieces(old_primary_key_, 0));
  for (size_t i = 0; i < layout.index_count(); i++) {
    if (static_cast<int>(i) == layout.primary()) continue;
    bool has_null = false;
    layout.secondary_entry(i, record, old_primary_key_, &old_entry_key_, nullptr, &has_null);
    ATOLL_RETURN_IF_ERROR(
        transaction()->remove(layout.family(), old_entry_key_, unique_length(i, old_entry_key_)));
  }
  if (share_->rows > 0) share_->rows--;
  return log_online(record, old_primary_key_, nullptr, {});
}

// Under REPEATABLE READ the snapshot may show an older version of the row than the one being changed, even
// of a row that is deleted by now. Its index entries must not be found any more by this transaction.
// snapshot_differs_: the snapshot has not exactly the entries of `current_row`.
Status ha_atoll::remove_snapshot_entries(const std::string &primary_key, std::string_view current_row) {
  snapshot_differs_ = false;
  const Layout &layout = *layout_;
  const size_t secondary = layout.index_count() - (layout.hidden_primary() ? 0 : 1);
  if (secondary == 0 || !transaction()->has_snapshot()) return Status::Ok();
  rocksdb::ReadOptions options;
  options.snapshot = transaction()->snapshot(layout.family()->side());
  if (options.snapshot == nullptr) return Status::Ok();
  if (options.snapshot->GetSequenceNumber() == layout.family()->newest_sequence()) return Status::Ok();
  snapshot_differs_ = true;
  rocksdb::PinnableSlice seen;
  const rocksdb::Status found = layout.family()->get(options, primary_key, &seen);
  if (found.IsNotFound()) return Status::Ok();
  if (!found.ok()) return atoll::lsm::from_rocksdb(found);
  if (std::string_view(seen.data(), seen.size()) == current_row) {
    snapshot_differs_ = false;
    return Status::Ok();
  }
  std::string buffer;
  std::string_view row;
  ATOLL_RETURN_IF_ERROR(
      ah::whole_row_at(layout, options.snapshot, primary_key, seen.ToStringView(), &buffer, &row));
  return remove_entries_of(row, primary_key);
}

// Removes all index entries of a packed row. Virtual columns can be computed in record[0] only, which is put
// back afterwards. Text of theirs stands in the fields and is computed again.
Status ha_atoll::remove_entries_of(std::string_view row, const std::string &primary_key) {
  uchar *const record = table->record[0];
  const std::vector<uchar> saved(record, record + table_share->reclength);
  Status status = layout_->row().unpack(row, nullptr, record);
  for (size_t i = 0; status.ok() && i < layout_->index_count(); i++) {
    if (layout_->is_primary(i)) continue;
    ah::compute_virtual_columns(table, i);
    bool has_null = false;
    layout_->secondary_entry(i, record, primary_key, &entry_key_, nullptr, &has_null);
    status = transaction()->remove(layout_->family(), entry_key_, unique_length(i, entry_key_));
  }
  memcpy(record, saved.data(), saved.size());
  for (size_t i = 0; i < layout_->index_count(); i++) ah::compute_virtual_columns(table, i);
  return status;
}

// The first or last key of an index that a row has, or will have when its transaction commits: the share that
// counted numbers may be gone while transactions go on (FLUSH TABLES), and a prepared one outlives the
// server. *key: empty if there is none.
Status ha_atoll::outermost_taken_key(const ah::IndexLayout &index, bool last, std::string *key) const {
  const atoll::engine::Engine *running = atoll::engine::running();
  atoll::lsm::Family *family = layout_->family();
  std::string uncommitted;  // asked for first: what is committed between the two is seen twice, not missed
  if (family->side() == atoll::lsm::Side::kMain)
    uncommitted = running->transactions()->outermost_uncommitted(family, index.start, index.end, last);
  ATOLL_RETURN_IF_ERROR(ah::outermost_key(*layout_, index, last, key));
  if (key->empty() || (!uncommitted.empty() && (last ? *key < uncommitted : uncommitted < *key)))
    *key = std::move(uncommitted);
  return Status::Ok();
}

// The next id of a table without primary key. Ids are given out once per server run; gaps are harmless.
Status ha_atoll::next_hidden_id(uint64_t *id) {
  if (share_->next_hidden_id == 0) {
    atoll::MutexLock guard(share_->hidden_id_mutex);
    if (share_->next_hidden_id == 0) {
      std::string last;
      ATOLL_RETURN_IF_ERROR(outermost_taken_key(layout_->primary_index(), true, &last));
      const std::string_view key(last);
      share_->next_hidden_id =
          key.empty() ? 1 : ah::hidden_id_of(key.substr(atoll::codec::kKeyStartLength)) + 1;
    }
  }
  *id = share_->next_hidden_id++;
  return Status::Ok();
}

// ---- ALTER ... COPY and CREATE ... SELECT --------------------------------------------------------

// Errors of the end of a partition copy are dropped by the server: partitions being reorganised take the
// ordinary way, row by row.
void ha_atoll::begin_copy(bool ignore_duplicates) {
  bulk_.reset();
  const bool internal = ah::is_internal(ah::parse_table_name(table_share->normalized_path.str).table);
  const bool creating_select = ha_thd()->lex->sql_command == SQLCOM_CREATE_TABLE;
  if (is_temporary() || is_sequence() || !(internal || creating_select)) return;
  bool has_unique = !layout_->hidden_primary();
  for (size_t i = 0; i < layout_->index_count(); i++) has_unique |= layout_->index(i).unique;
  if (ignore_duplicates && has_unique) return;
  for (uint i = 0; i < table_share->keys; i++)
    if (table->key_info[i].algorithm == HA_KEY_ALG_LONG_HASH) return;  // checked by the server against rows
  if (table_share->period.unique_keys != 0) return;                    // WITHOUT OVERLAPS: likewise
  bulk_ = std::make_unique<ah::BulkCopy>(share_, layout_, ah::Session::of(ha_thd(), true)->sort_budget());
}

void ha_atoll::show_copy_duplicate(ah::BulkCopy *bulk) {
  session_->duplicate_index = static_cast<uint>(bulk->duplicate_index());
  restore_record(table, s->default_values);  // what cannot be told of the duplicate: nothing of another row
  bulk->show_duplicate(table->record[0], &old_entry_key_, &old_entry_value_, &packed_row_);
}

int ha_atoll::end_copy() {
  if (!bulk_) return 0;
  std::unique_ptr<ah::BulkCopy> bulk = std::move(bulk_);
  THD *thd = ha_thd();
  const auto progress = [thd](double) { return !atoll::is_statement_killed(thd); };
  const Status status = bulk->finish(progress, &layout_);
  if (status.code() == Code::kDuplicate) show_copy_duplicate(bulk.get());
  if (!status.ok()) return fail(status);
  share_->rows = static_cast<int64_t>(bulk->rows());
  if (layout_->def().id != 0 && share_->next_auto_increment > 0)
    (void)atoll::engine::running()->catalog()->set_auto_increment(layout_->def().id,
                                                                  share_->next_auto_increment);
  const Status published = atoll::engine::running()->gate().after_ddl();
  return published.ok() ? 0 : fail(published);
}
