#include "table/write/row_writer.h"

#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {

// Frees large buffers. The server keeps tables open for long, so otherwise each table that ever had a large
// row would keep the memory of that row.
void RowWriter::end_statement() {
  constexpr size_t kKeptBytesMax = 1 << 20;
  absent_keys_ = {};
  for (std::string *buffer : {&packed_row_, &old_packed_row_})
    if (buffer->capacity() > kKeptBytesMax) std::string().swap(*buffer);
}

Status RowWriter::insert(const uint8_t *record, uint64_t hidden_id) {
  ATOLL_RETURN_IF_ERROR(check_row_size(layout().row(), record));
  layout().primary_key(record, hidden_id, &primary_key_);
  // No other statement can search for a new hidden id, but a locking scan can reach the new row. The scan
  // must then be able to wait for the row's lock.
  if (layout().hidden_primary()) ATOLL_RETURN_IF_ERROR(locks_.claim(primary_key_));
  ATOLL_RETURN_IF_ERROR(check_unique(record, nullptr));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(primary_key_, {}));

  const bool in_pieces = goes_in_pieces(record);
  packed_row_.clear();
  if (!in_pieces) layout().row().pack(record, &packed_row_);
  ATOLL_RETURN_IF_ERROR(put_row(record, in_pieces, true));
  ATOLL_RETURN_IF_ERROR(insert_entries(record));
  ATOLL_RETURN_IF_ERROR(log_change(nullptr, record));
  table_.mutable_row_key()->assign(primary_key_);
  return Status::Ok();
}

Status RowWriter::update(const uint8_t *old_record, const uint8_t *new_record, uint64_t hidden_id,
                         Updated *updated) {
  ATOLL_RETURN_IF_ERROR(check_row_size(layout().row(), new_record));
  layout().primary_key(old_record, hidden_id, &old_primary_key_);
  layout().primary_key(new_record, hidden_id, &primary_key_);
  const bool is_moved = primary_key_ != old_primary_key_;
  ATOLL_RETURN_IF_ERROR(pack_old_row(old_record, true));
  const bool in_pieces = goes_in_pieces(new_record);
  packed_row_.clear();
  if (!in_pieces) layout().row().pack(new_record, &packed_row_);
  const bool same_row = in_pieces ? CutRow(layout().row(), old_record) == CutRow(layout().row(), new_record)
                                  : packed_row_ == old_packed_row_;
  *updated = same_row && !is_moved ? Updated::kSame : Updated::kChanged;
  if (*updated == Updated::kSame) return Status::Ok();

  ATOLL_RETURN_IF_ERROR(check_unique(new_record, old_record));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(old_primary_key_, old_packed_row_));
  if (is_moved) {
    ATOLL_RETURN_IF_ERROR(transaction()->remove(family(), old_primary_key_));
    ATOLL_RETURN_IF_ERROR(remove_pieces(old_primary_key_, 0));
    ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(primary_key_, {}));
  }
  ATOLL_RETURN_IF_ERROR(put_row(new_record, in_pieces, is_moved));
  ATOLL_RETURN_IF_ERROR(update_entries(old_record, new_record));
  ATOLL_RETURN_IF_ERROR(log_change(old_record, new_record));
  table_.mutable_row_key()->assign(primary_key_);
  return Status::Ok();
}

Status RowWriter::remove(const uint8_t *record, uint64_t hidden_id) {
  layout().primary_key(record, hidden_id, &old_primary_key_);
  ATOLL_RETURN_IF_ERROR(pack_old_row(record, has_older_snapshot()));
  ATOLL_RETURN_IF_ERROR(remove_snapshot_entries(old_primary_key_, old_packed_row_));
  ATOLL_RETURN_IF_ERROR(transaction()->remove(family(), old_primary_key_));
  ATOLL_RETURN_IF_ERROR(remove_pieces(old_primary_key_, 0));
  for (size_t i = 0; i < layout().index_count(); i++)
    if (!layout().is_primary(i)) ATOLL_RETURN_IF_ERROR(remove_entry(i, record, old_primary_key_));
  return log_change(record, nullptr);
}

// ---- Checking unique keys ------------------------------------------------------------------------

// Locks and checks every unique key that the new row would take. For an update (`old_record` is not null),
// keys that stay the same are skipped.
Status RowWriter::check_unique(const uint8_t *record, const uint8_t *old_record) {
  const bool is_new_key = old_record == nullptr || old_primary_key_ != primary_key_;
  ATOLL_RETURN_IF_ERROR(ask(layout().primary(), record, old_record));
  if (!layout().hidden_primary() && is_new_key) ATOLL_RETURN_IF_ERROR(check_primary());
  for (size_t i = 0; i < layout().index_count(); i++) {
    if (layout().is_primary(i)) continue;
    ATOLL_RETURN_IF_ERROR(ask(static_cast<int>(i), record, old_record));
    if (layout().index(i).unique) ATOLL_RETURN_IF_ERROR(check_index(i, record, old_record));
  }
  return Status::Ok();
}

Status RowWriter::check_primary() {
  ATOLL_RETURN_IF_ERROR(wait_for_ranges(primary_key_));
  ATOLL_RETURN_IF_ERROR(locks_.claim(primary_key_));
  const Status found =
      transaction()->find_locked(family(), primary_key_, layout().primary_index().end, &absent_keys_);
  if (found.code() == Code::kNotFound) return Status::Ok();
  if (!found.ok()) return found;
  duplicate_index_ = static_cast<size_t>(layout().primary());
  return Status(Code::kDuplicate, "");
}

Status RowWriter::check_index(size_t index, const uint8_t *record, const uint8_t *old_record) {
  bool has_null = false;
  layout().secondary_entry(index, record, primary_key_, &entry_key_, nullptr, &has_null);
  if (has_null) return Status::Ok();
  size_t length = 0;
  ATOLL_RETURN_IF_ERROR(layout().user_part_length(index, entry_key_, &length));
  if (old_record != nullptr) {
    layout().secondary_entry(index, old_record, old_primary_key_, &old_entry_key_, nullptr, &has_null);
    if (!has_null && old_entry_key_.compare(0, length, entry_key_, 0, length) == 0) return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(wait_for_ranges(entry_key_));
  entry_key_.resize(length);
  return check_unique_entry(index, entry_key_);
}

// Returns kDuplicate if an entry of the unique index begins with `start`, which is the new key without the
// primary key. The row of such an entry is locked first, and the entry searched again. Otherwise this
// transaction would not see that another transaction is removing the entry.
Status RowWriter::check_unique_entry(size_t index, const std::string &start) {
  ATOLL_RETURN_IF_ERROR(locks_.claim(start));
  std::string locked, entry, primary_key;
  for (;;) {
    ATOLL_RETURN_IF_ERROR(find_unique_entry(start, &entry));
    if (entry.empty()) return Status::Ok();
    if (entry == locked) break;
    ATOLL_RETURN_IF_ERROR(layout().primary_of_entry(index, entry, &primary_key));
    ATOLL_RETURN_IF_ERROR(locks_.lock(primary_key, RowLock::kShared, nullptr));
    locked = entry;
  }
  duplicate_index_ = index;
  return Status(Code::kDuplicate, "");
}

// *entry: the first entry that begins with `start`, own writes included; empty if there is none.
Status RowWriter::find_unique_entry(const std::string &start, std::string *entry) {
  txn::ScanOptions options;
  options.lower = start;
  options.upper = codec::key_after_prefix(start);
  options.unique_start = true;
  const std::unique_ptr<rocksdb::Iterator> it = transaction()->scan(family(), txn::ReadAt::kLatest, options);
  it->Seek(start);
  entry->clear();
  if (it->Valid()) entry->assign(it->key().data(), it->key().size());
  return lsm::from_rocksdb(it->status());
}

// Waits until no other transaction has locked a range that contains the new key. The writer waits before it
// locks the key. The reason: a transaction that has searched for the key without finding it has locked the
// range, and it must still be able to insert the key.
Status RowWriter::wait_for_ranges(const std::string &key) {
  const txn::LockKey entry{family()->id(), key};
  if (!table_.locks()->has_ranges(entry)) return Status::Ok();
  return table_.locks()->lock_insert(transaction()->lock_owner(), entry, table_.lock_wait(),
                                     [] { return Status::Ok(); });
}

// ---- Storing and removing rows -------------------------------------------------------------------

bool RowWriter::goes_in_pieces(const uint8_t *record) const {
  return CutRow::is_needed(layout().row(), record) && !(log_ != nullptr && log_->needs_whole_rows());
}

// Called before a row is changed. Packs the old record into old_packed_row_ if that `is_needed`. It stays
// empty for a large row and then equals no stored row. Sets old_pieces_ to the number of the row's pieces.
// This number is taken from the stored reference and not from the record, for two reasons: the record lacks
// columns that were dropped since, and large rows that older builds copied are stored whole.
Status RowWriter::pack_old_row(const uint8_t *record, bool is_needed) {
  old_packed_row_.clear();
  old_pieces_ = 0;
  const codec::RowCodec &row = layout().row();
  if (row.may_exceed(codec::kLargeRowBytes)) {
    rocksdb::PinnableSlice stored;
    ATOLL_RETURN_IF_ERROR(transaction()->get(family(), old_primary_key_, txn::ReadAt::kLatest, &stored));
    codec::LargeRow large;
    if (codec::is_large_row(stored.ToStringView())) {
      ATOLL_RETURN_IF_ERROR(codec::decode(stored.ToStringView(), &large));
      old_pieces_ = large.piece_count();
    }
    if (old_pieces_ != 0 || row.exceeds(record, codec::kLargeRowBytes)) return Status::Ok();
  }
  if (is_needed) row.pack(record, &old_packed_row_);
  return Status::Ok();
}

// Stores packed_row_, or the record in pieces. Then removes those pieces of the row's former version that the
// new version does not overwrite. A new row has no former version.
Status RowWriter::put_row(const uint8_t *record, bool in_pieces, bool is_new) {
  const auto put = [&](std::string_view stored) {
    return is_new ? transaction()->insert(family(), primary_key_, stored, table_.lock_wait())
                  : transaction()->put(family(), primary_key_, stored);
  };
  if (is_new) old_pieces_ = 0;
  if (!in_pieces) {
    ATOLL_RETURN_IF_ERROR(put(packed_row_));
    return remove_pieces(primary_key_, 0);
  }
  const CutRow row(layout().row(), record);
  const codec::LargeRow reference = row.reference();
  ATOLL_RETURN_IF_ERROR(put(codec::encode(reference)));
  ATOLL_RETURN_IF_ERROR(row.each_piece(primary_key_, [this](std::string_view key, std::string_view piece) {
    return transaction()->put(family(), key, piece);
  }));
  return remove_pieces(primary_key_, reference.piece_count());
}

// Removes the pieces of the row's former version from number `from` on.
Status RowWriter::remove_pieces(const std::string &primary_key, uint64_t from) {
  if (old_pieces_ == 0) return Status::Ok();
  const std::string start = codec::row_pieces_start(primary_key);
  for (; from < old_pieces_; from++)
    ATOLL_RETURN_IF_ERROR(transaction()->remove(family(), codec::row_piece_key(start, from)));
  old_pieces_ = 0;
  return Status::Ok();
}

// ---- Writing and removing index entries ----------------------------------------------------------

// The number of bytes of an entry's key that must be unique, a parameter of Transaction::put(). 0 if the
// index is not unique or if the entry has a NULL, because then no writer searches for the key.
size_t RowWriter::unique_length(size_t index, const std::string &entry_key) const {
  return layout().index(index).unique ? layout().unique_length(index, entry_key) : 0;
}

Status RowWriter::insert_entries(const uint8_t *record) {
  for (size_t i = 0; i < layout().index_count(); i++) {
    if (layout().is_primary(i)) continue;
    bool has_null = false;
    layout().secondary_entry(i, record, primary_key_, &entry_key_, &entry_value_, &has_null);
    ATOLL_RETURN_IF_ERROR(transaction()->insert(family(), entry_key_, entry_value_, table_.lock_wait(),
                                                unique_length(i, entry_key_)));
  }
  return Status::Ok();
}

Status RowWriter::update_entries(const uint8_t *old_record, const uint8_t *new_record) {
  for (size_t i = 0; i < layout().index_count(); i++) {
    if (layout().is_primary(i)) continue;
    bool has_null = false;
    layout().secondary_entry(i, old_record, old_primary_key_, &old_entry_key_, &old_entry_value_, &has_null);
    layout().secondary_entry(i, new_record, primary_key_, &entry_key_, &entry_value_, &has_null);
    const bool same_key = old_entry_key_ == entry_key_;
    // An unchanged entry is written all the same if the snapshot may not show it, or if
    // remove_snapshot_entries() may have removed it.
    if (same_key && old_entry_value_ == entry_value_ && !snapshot_differs_) continue;
    if (same_key) {
      ATOLL_RETURN_IF_ERROR(
          transaction()->put(family(), entry_key_, entry_value_, unique_length(i, entry_key_)));
      continue;
    }
    ATOLL_RETURN_IF_ERROR(transaction()->remove(family(), old_entry_key_, unique_length(i, old_entry_key_)));
    ATOLL_RETURN_IF_ERROR(transaction()->insert(family(), entry_key_, entry_value_, table_.lock_wait(),
                                                unique_length(i, entry_key_)));
  }
  return Status::Ok();
}

Status RowWriter::remove_entry(size_t index, const uint8_t *record, const std::string &primary_key) {
  bool has_null = false;
  layout().secondary_entry(index, record, primary_key, &old_entry_key_, nullptr, &has_null);
  return transaction()->remove(family(), old_entry_key_, unique_length(index, old_entry_key_));
}

// Whether the snapshot may show a version of the row that has other index entries than the newest one.
bool RowWriter::has_older_snapshot() const {
  const size_t secondary = layout().index_count() - (layout().hidden_primary() ? 0 : 1);
  if (secondary == 0 || !transaction()->has_snapshot()) return false;
  const rocksdb::Snapshot *const snapshot = transaction()->snapshot(family()->side());
  return snapshot != nullptr && snapshot->GetSequenceNumber() != family()->newest_sequence();
}

// Removes the index entries of the version of the row that the snapshot shows. Under REPEATABLE READ this
// version can be older than the version that is changed now, or the row can have been deleted since. After
// the change this transaction must not find the row by the old entries any more. Sets snapshot_differs_ to
// whether that version differs from `current_row`.
Status RowWriter::remove_snapshot_entries(const std::string &primary_key, std::string_view current_row) {
  snapshot_differs_ = has_older_snapshot();
  if (!snapshot_differs_) return Status::Ok();
  rocksdb::ReadOptions options;
  options.snapshot = transaction()->snapshot(family()->side());
  rocksdb::PinnableSlice seen;
  const rocksdb::Status found = family()->get(options, primary_key, &seen);
  if (found.IsNotFound()) return Status::Ok();
  if (!found.ok()) return lsm::from_rocksdb(found);
  if (seen.ToStringView() == current_row) {
    snapshot_differs_ = false;
    return Status::Ok();
  }
  std::string buffer;
  std::string_view row;
  ATOLL_RETURN_IF_ERROR(
      whole_row_at(layout(), options.snapshot, primary_key, seen.ToStringView(), &buffer, &row));
  return view_.each_index_of(
      row, [&](size_t index, const uint8_t *record) { return remove_entry(index, record, primary_key); });
}

Status RowWriter::log_change(const uint8_t *old_record, const uint8_t *new_record) {
  if (log_ == nullptr) return Status::Ok();
  return log_->log(transaction(), {old_record, &old_primary_key_}, {new_record, &primary_key_});
}

}  // namespace atoll::table
