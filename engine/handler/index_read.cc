// ha_atoll: reading by index.
//
// A read starts with a Seek and goes on with step(). accept_current() looks at the entry under the cursor
// and either delivers a row or says to move on: an entry may belong to a row that is gone, changed, locked
// by another (SKIP LOCKED), or refused by a pushed condition.
#include "handler/ha_atoll.h"

#include <cstring>

#include "codec/large_row.h"
#include "handler/error_map.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace txn = atoll::txn;

int ha_atoll::index_init(uint index, bool) {
  active_index = index;
  choose_columns();
  choose_entries();
  batch_.restart();
  cursor_positioned_ = false;
  cursor_prefix_.clear();
  return 0;
}

// A row found by a unique key and constants is used until the statement ends, though its index read ends
// here.
int ha_atoll::index_end() {
  close_cursor();
  batch_.keep_last();
  active_index = MAX_KEY;
  in_range_check_pushed_down = false;
  return 0;
}

// Which stored columns the statement needs. Statements that change rows need all: the new row is packed
// from the old one. So do locking reads: index entries are compared with the row again.
void ha_atoll::choose_columns() {
  want_all_columns_ = write_locked_ || locking() || bitmap_is_set_all(table->read_set);
  if (want_all_columns_) return;
  wanted_columns_.assign(layout_->row().column_count(), false);
  for (uint i = 0; i < table_share->fields; i++) {
    const int stored = layout_->stored_column(i);
    if (stored >= 0 && bitmap_is_set(table->read_set, i)) wanted_columns_[stored] = true;
  }
}

// The server asks for entries only when the query needs no more than they have, but of the columns that they
// hold a prefix of it still uses those in the read set: the ends of a range are compared with them,
// partitions are merged by them. Rows are read then, with the columns that virtual ones are computed from.
void ha_atoll::choose_entries() {
  entries_suffice_ = keyread_ && active_index != MAX_KEY;
  if (!entries_suffice_) return;
  for (const uint field : layout_->index(active_index).cut_fields)
    if (bitmap_is_set(table->read_set, field)) entries_suffice_ = false;
  if (!entries_suffice_) want_all_columns_ = true;
}

void ha_atoll::open_cursor(const std::string &start, const std::string &end, bool for_scan) {
  const uint64_t writes = transaction()->write_count();
  if (cursor_ && !locking() && cursor_writes_ == writes) return;
  if (!locking()) session_->open_read_view();
  txn::ScanOptions options;
  options.lower = start;
  options.upper = end;
  if (for_scan) options.readahead_bytes = 2 << 20;
  cursor_writes_ = writes;
  cursor_commits_ = transaction()->commits_seen(layout_->family());
  cursor_sequence_ =
      locking()
          ? atoll::plugin::instance()->database->db(layout_->family()->side())->GetLatestSequenceNumber()
          : 0;
  cursor_ = transaction()->scan(layout_->family(), read_at(), options);
}

void ha_atoll::close_cursor() {
  cursor_.reset();
  cursor_positioned_ = false;
  cursor_prefix_.clear();
  scan_end_.clear();
}

// The first parts of an index key, from the server's search key.
void ha_atoll::search_key(const uchar *key, key_part_map parts, std::string *out, size_t *parts_used) {
  KEY *key_info = &table->key_info[active_index];
  const ah::IndexLayout &index = layout_->index(active_index);
  if (parts == HA_WHOLE_KEY) parts = make_prev_keypart_map(key_info->user_defined_key_parts);
  const uint length = calculate_key_len(table, active_index, key, parts);
  // The bounds of a LIKE range may have more characters than the column: they are cut without a word.
  const Check_level_instant_set quietly(ha_thd(), CHECK_FIELD_IGNORE);
  key_restore(search_record_.data(), key, key_info, length);
  size_t count = 0;
  for (key_part_map map = parts; map & 1; map >>= 1) count++;
  *parts_used = count <= index.user_parts ? count : index.user_parts + primary_parts_given(*key_info, count);
  out->assign(index.start);
  index.codec->append_parts(search_record_.data(), *parts_used, out, nullptr);
}

// The first key behind a range of the active index that ends at `last`.
void ha_atoll::range_end(const key_range &last, std::string *out) {
  size_t parts = 0;
  search_key(last.key, last.keypart_map, out, &parts);
  if (last.flag != HA_READ_BEFORE_KEY) *out = atoll::codec::key_after_prefix(*out);
}

// Extended keys: the server appends the primary key's columns that the index lacks, we append all of them.
// Counts the leading primary key columns among the first `count` columns of a search key.
size_t ha_atoll::primary_parts_given(const KEY &key, size_t count) const {
  if (layout_->hidden_primary()) return 0;
  const KEY &primary = table->key_info[table_share->primary_key];
  size_t given = 0;
  for (; given < primary.user_defined_key_parts; given++) {
    bool found = false;
    for (size_t i = 0; i < count && !found; i++)
      found = key.key_part[i].fieldnr == primary.key_part[given].fieldnr;
    if (!found) break;
  }
  return given;
}

int ha_atoll::index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) {
  return show_read_error(search(record, key, parts, find));
}

int ha_atoll::search(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) {
  Seek seek;
  size_t parts_used = 0;
  search_key(key, parts, &seek.key, &parts_used);
  const ah::IndexLayout &index = layout_->index(active_index);
  switch (find) {
    case HA_READ_KEY_EXACT:
      if (static_cast<int>(active_index) == layout_->primary() && parts_used == index.user_parts)
        return read_by_primary_key(record, seek.key);
      seek.prefix = seek.key;
      seek.parts = parts_used;
      break;
    case HA_READ_KEY_OR_NEXT:
      break;
    case HA_READ_AFTER_KEY:
      seek.key = atoll::codec::key_after_prefix(seek.key);
      break;
    case HA_READ_BEFORE_KEY:
      seek.forward = false;
      break;
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.forward = false;
      break;
    case HA_READ_PREFIX:
      seek.prefix = seek.key;
      break;
    case HA_READ_PREFIX_LAST:
      seek.prefix = seek.key;
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.forward = false;
      break;
    default:
      return HA_ERR_WRONG_COMMAND;
  }
  return read_from(seek, record);
}

int ha_atoll::index_read_last_map(uchar *record, const uchar *key, key_part_map parts) {
  return index_read_map(record, key, parts, HA_READ_PREFIX_LAST);
}

int ha_atoll::index_first(uchar *record) {
  Seek seek;
  seek.key = layout_->index(active_index).start;
  const int error = read_from(seek, record);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

int ha_atoll::index_last(uchar *record) {
  Seek seek;
  seek.key = layout_->index(active_index).end;
  seek.forward = false;
  const int error = read_from(seek, record);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : show_read_error(error);
}

int ha_atoll::index_next(uchar *record) {
  if (!within_prefix_) leave_prefix();
  const int error = step(record, true);
  if (error == HA_ERR_END_OF_FILE)
    stand_at(cursor_prefix_.empty() ? layout_->index(active_index).end
                                    : atoll::codec::key_after_prefix(cursor_prefix_));
  return error;
}

int ha_atoll::index_prev(uchar *record) {
  leave_prefix();
  const int error = step(record, false);
  if (error == HA_ERR_END_OF_FILE)
    stand_at(cursor_prefix_.empty() ? layout_->index(active_index).start : cursor_prefix_);
  return error;
}

int ha_atoll::index_next_same(uchar *record, const uchar *key, uint length) {
  within_prefix_ = true;
  const int error = handler::index_next_same(record, key, length);
  within_prefix_ = false;
  return error;
}

// An exact read bounds what follows it only for index_next_same(); HANDLER ... NEXT goes on with larger keys.
void ha_atoll::leave_prefix() {
  if (cursor_prefix_.empty() || locking()) return;
  cursor_prefix_.clear();
  batch_.ended = false;
}

bool ha_atoll::is_newer_than_snapshot(uint64_t readable_from) {
  if (readable_from == 0) return false;
  const rocksdb::Snapshot *snapshot = transaction()->snapshot(layout_->family()->side());
  return snapshot != nullptr && snapshot->GetSequenceNumber() < readable_from;
}

// Before each scan and search. A table made, copied or truncated since the transaction took its snapshot
// lacks what the snapshot would show. That is refused to reads with locks too, as InnoDB does: the
// transaction would change rows that its plain reads do not see. A new row needs no reading.
int ha_atoll::begin_reading() {
  if (!locking()) session_->open_read_view();
  return !is_sequence() && is_newer_than_snapshot(layout_->def().readable_from.number)
             ? HA_ERR_TABLE_DEF_CHANGED
             : 0;
}

int ha_atoll::read_from(const Seek &seek, uchar *record) {
  const ah::IndexLayout &index = layout_->index(active_index);
  begin_search(index.unique && locking() && is_whole_key(seek.key, seek.parts));
  batch_.restart(may_stop_early() || seek.prefix.empty() ? 1 : ah::RowBatch::kRowsMax);
  if (int error = begin_reading()) return error;
  // So does an index built since then; rows found by it with locks are the newest.
  if (!locking() && is_newer_than_snapshot(index.readable_from)) return HA_ERR_TABLE_DEF_CHANGED;
  start_protection(seek.forward || !seek.key.empty() ? seek.key : index.end, seek.forward);
  // Before the cursor is opened: it may wait for who inserts the key.
  if (Status status = protect_unique_key(seek.key, seek.parts); !status.ok()) return fail(status);
  open_cursor(index.start, index.end, false);
  cursor_prefix_ = seek.prefix;
  scan_end_ = std::move(next_scan_end_);
  next_scan_end_.clear();
  if (seek.forward) {
    cursor_->Seek(seek.key);
  } else if (seek.key.empty()) {
    cursor_->SeekToLast();
  } else {
    cursor_->SeekForPrev(seek.key);
    if (cursor_->Valid() && cursor_->key() == rocksdb::Slice(seek.key)) cursor_->Prev();
  }
  cursor_positioned_ = true;
  const int error = accept_current(record, seek.forward);
  if (error != HA_ERR_END_OF_FILE) return error;
  if (protected_as_point_) leave_absent_key(seek.key);
  stand_at(!seek.prefix.empty() ? seek.key : seek.forward ? index.end : index.start);
  return HA_ERR_KEY_NOT_FOUND;
}

// Where a search or a walk that found nothing stopped: HANDLER goes on from there, either way.
void ha_atoll::stand_at(const std::string &key) {
  current_key_ = key;
  cursor_positioned_ = false;
}

// The next row in `forward` direction after the one returned last.
int ha_atoll::step(uchar *record, bool forward) {
  if (semi_consistent_ == SemiConsistent::kReturned) {
    semi_consistent_ = SemiConsistent::kAgain;
    return accept_current(record, forward);
  }
  if (locking()) resume_protection(forward);
  if (batching() && forward != batch_forward_) {
    batch_.restart();
    cursor_positioned_ = false;
  }
  if (!batch_.empty()) {
    const int error = next_from_batch(record);
    if (error != HA_ERR_KEY_NOT_FOUND) return error;
  }
  if (batch_.ended) return HA_ERR_END_OF_FILE;
  if (!cursor_positioned_ || !cursor_) {
    const ah::IndexLayout &index = layout_->index(active_index);
    open_cursor(index.start, index.end, false);
    if (forward)
      cursor_->Seek(current_key_);
    else
      cursor_->SeekForPrev(current_key_);
    cursor_positioned_ = true;
    batch_started_ = false;
    const bool at_last = cursor_->Valid() && cursor_->key() == rocksdb::Slice(current_key_);
    if (!at_last) return accept_current(record, forward);
  }
  if (!batching() || !batch_started_) forward ? cursor_->Next() : cursor_->Prev();
  return accept_current(record, forward);
}

int ha_atoll::accept_current(uchar *record, bool forward) {
  if (batching()) return read_batch(record, forward);
  const bool primary = active_index == MAX_KEY || static_cast<int>(active_index) == layout_->primary();
  for (;; forward ? cursor_->Next() : cursor_->Prev()) {
    if (int error = protect_to_cursor(forward)) return error;
    if (!cursor_->Valid()) break;
    if (!cursor_in_scan(forward)) return HA_ERR_END_OF_FILE;
    if (killed()) return HA_ERR_ABORTED_BY_USER;
    bool accepted = false;
    current_lock_is_new_ = false;
    current_key_.assign(cursor_->key().data(), cursor_->key().size());
    const int error =
        primary ? accept_primary_entry(record, &accepted) : accept_secondary_entry(record, &accepted);
    if (error || accepted) return error;
    if (locking()) unlock_row();  // the server does not see it
  }
  const rocksdb::Status status = cursor_->status();
  return status.ok() ? HA_ERR_END_OF_FILE : fail(atoll::lsm::from_rocksdb(status));
}

int ha_atoll::accept_primary_entry(uchar *record, bool *accepted) {
  int error = 0;
  const rocksdb::Slice value = cursor_->value();
  const std::string_view packed(value.data(), value.size());
  // Under range locks a row that does not match is locked too, lest it be changed into one that does.
  // So is one in pieces, which may only be read under its lock.
  const bool lock_first = protects_ranges() || (locking() && atoll::codec::is_large_row(packed));
  if (predicate_ && !lock_first && !passes_predicate(current_key_, packed, &error)) return error;
  current_primary_key_ = current_key_;
  if (locking()) return lock_and_fetch(current_primary_key_, packed, true, record, accepted);
  *accepted = true;
  if (!write_locked_) return unpack_row(packed, record);
  row_buffer_.assign(packed);
  return unpack_row(row_buffer_, record);
}

int ha_atoll::accept_secondary_entry(uchar *record, bool *accepted) {
  if (pushed_idx_cond != nullptr) {
    if (int error = decode_entry(current_key_, {cursor_->value().data(), cursor_->value().size()}, record))
      return error;
    const int verdict = check_pushed_index_condition();
    if (verdict == HA_ERR_KEY_NOT_FOUND) return 0;  // refused: go on
    if (verdict) return verdict;
  }
  if (Status status = layout_->primary_of_entry(active_index, current_key_, &current_primary_key_);
      !status.ok())
    return fail(status);
  if (!locking()) {
    *accepted = true;
    return decode_entry(current_key_, {cursor_->value().data(), cursor_->value().size()}, record);
  }
  if (int error = lock_and_fetch(current_primary_key_, {}, false, record, accepted)) return error;
  if (!*accepted) return 0;
  // The row may have changed since the entry was read: it must still have this entry.
  if (indexes_virtual_column(active_index)) {
    if (record != table->record[0])
      return 0;  // cannot be computed elsewhere; the server checks the condition
    compute_virtual_columns(active_index);
  }
  bool has_null = false;
  layout_->secondary_entry(active_index, record, current_primary_key_, &entry_key_, nullptr, &has_null);
  if (entry_key_ != current_key_) *accepted = false;
  return 0;
}

// The row of `primary_key` as this read sees it. *found: false when there is none.
int ha_atoll::fetch_row(const std::string &primary_key, uchar *record, bool *found) {
  row_slice_.Reset();
  if (!locking()) session_->open_read_view();
  const Status status = transaction()->get(layout_->family(), primary_key, read_at(), &row_slice_);
  if (status.code() == Code::kNotFound) {
    *found = false;
    row_is_absent_ = true;
    return 0;
  }
  if (!status.ok()) return fail(status);
  int error = 0;
  if (semi_consistent_ == SemiConsistent::kReturned &&
      atoll::codec::is_large_row(row_slice_.ToStringView())) {
    // Read without its lock, the pieces might be those of two versions.
    semi_consistent_ = SemiConsistent::kAllowed;
    bool waited = false;
    if (Status locked = lock_row(primary_key, lock_, &waited); !locked.ok()) return fail(locked);
    return fetch_row(primary_key, record, found);
  }
  if (predicate_ && !passes_predicate(primary_key, row_slice_.ToStringView(), &error)) {
    *found = false;
    return error;
  }
  *found = true;
  if (!write_locked_) return unpack_row({row_slice_.data(), row_slice_.size()}, record);
  row_buffer_.assign(row_slice_.data(), row_slice_.size());
  return unpack_row(row_buffer_, record);
}

int ha_atoll::read_by_primary_key(uchar *record, const std::string &key) {
  begin_search(false);  // its row is always locked
  if (int error = begin_reading()) return error;
  cursor_positioned_ = false;
  batch_.restart();
  current_key_ = current_primary_key_ = key;
  bool found = false;
  row_is_absent_ = false;
  const int error =
      locking() ? lock_and_fetch(key, {}, false, record, &found) : fetch_row(key, record, &found);
  if (error) return error;
  if (found) return 0;
  if (locking()) row_is_absent_ ? leave_absent_key(key) : unlock_row();
  return HA_ERR_KEY_NOT_FOUND;
}

int ha_atoll::decode_entry(std::string_view entry_key, std::string_view entry_value, uchar *record) {
  const ah::IndexLayout &index = layout_->index(active_index);
  const Status status = index.codec->decode(entry_key.substr(atoll::codec::kKeyStartLength), entry_value,
                                            record, &key_scratch_);
  return status.ok() ? 0 : fail(status);
}

bool ha_atoll::killed() {
  if ((++rows_since_kill_check_ & 0x3FF) != 0) return false;
  return thd_killed(ha_thd()) != 0;
}
