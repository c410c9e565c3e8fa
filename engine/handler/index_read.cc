// ha_atoll: reading by index.
//
// A read starts with a Seek and goes on with step(). accept_current() looks at the entry under the cursor
// and either delivers a row or says to move on: an entry may belong to a row that is gone, changed, locked
// by another (SKIP LOCKED), or refused by a pushed condition.
#include "handler/ha_atoll.h"

#include <cstring>
#include <utility>

#include "handler/counted_pages.h"
#include "base/mutant.h"
#include "codec/large_row.h"
#include "handler/error_map.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::is_mutant;
using atoll::Mutant;
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
  has_next_bounds_ = false;
  range_end_.clear();
  return 0;
}

// A row found by a unique key and constants is used until the statement ends, though its index read ends
// here.
int ha_atoll::index_end() {
  // The next read of the statement goes on with it.
  if (locking() || (cursor_ && cursor_->has_own_writes())) close_cursor();
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
  wanted_columns_.clear();
  for (uint i = 0; i < table_share->fields; i++) {
    const int stored = layout_->stored_column(i);
    if (stored >= 0 && bitmap_is_set(table->read_set, i)) wanted_columns_.push_back(stored);
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

// Over all indexes of the table, until it gets its bounds.
std::unique_ptr<txn::Cursor> ha_atoll::new_cursor(txn::ReadAt at, bool for_scan) {
  txn::ScanOptions options;
  options.lower = layout_->primary_index().start.substr(0, atoll::codec::kKeyPrefixLength);
  options.upper = atoll::codec::key_after_prefix(options.lower);
  if (for_scan) options.readahead_bytes = 2 << 20;
  return transaction()->scan(layout_->family(), at, options);
}

// A cursor for searches within bounds_. One that is open serves for other bounds too, until the transaction
// has written; a read with locks needs the newest entries each time.
void ha_atoll::open_cursor(bool for_scan) {
  const uint64_t writes = transaction()->write_count();
  if (cursor_ && !locking() && cursor_writes_ == writes && !is_mutant(Mutant::cursor_reuse))
    return cursor_->set_bounds(bounds_.lower, bounds_.upper);
  if (!locking()) session_->open_read_view();
  cursor_writes_ = writes;
  cursor_commits_ = transaction()->commits_seen(layout_->family());
  cursor_sequence_ =
      locking()
          ? atoll::plugin::instance()->database->db(layout_->family()->side())->GetLatestSequenceNumber()
          : 0;
  const bool shows_newest = cursor_ && locking() && writes == 0;
  if (!shows_newest || !cursor_->refresh()) cursor_ = new_cursor(read_at(), for_scan);
  cursor_->set_bounds(bounds_.lower, bounds_.upper);
}

void ha_atoll::close_cursor() {
  cursor_.reset();
  cursor_positioned_ = false;
  cursor_prefix_.clear();
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
  const ah::CountedPages pages(handler_stats);
  Seek seek;
  size_t parts_used = 0;
  prefix_stays_ = find == HA_READ_PREFIX_LAST;
  search_key(key, parts, &seek.key, &parts_used);
  const ah::IndexLayout &index = layout_->index(active_index);
  switch (find) {
    case HA_READ_KEY_EXACT:
      if (layout_->is_primary(active_index) && parts_used == index.user_parts &&
          !is_mutant(Mutant::point_get))
        return read_by_primary_key(record, seek.key, true);
      seek.prefix = seek.key;
      seek.parts = parts_used;
      break;
    case HA_READ_KEY_OR_NEXT:
      break;
    case HA_READ_AFTER_KEY:
      seek.key = atoll::codec::key_after_prefix(seek.key);
      seek.after = true;
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
  seek.whole_index = true;
  const int error = read_from(seek, record);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

int ha_atoll::index_last(uchar *record) {
  const bool in_range = has_next_bounds_;
  Seek seek;
  seek.key = layout_->index(active_index).end;
  seek.forward = false;
  seek.whole_index = true;
  int error = read_from(seek, record);
  if (error == HA_ERR_KEY_NOT_FOUND && in_range) error = read_below_range(record);
  return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : show_read_error(error);
}

// The server reads ranges backwards. The last range has no upper end and no row: the server goes on with the
// range below only if it gets a row, one that it sees is not of the range. "None" means an empty index to it.
int ha_atoll::read_below_range(uchar *record) {
  Seek seek;
  seek.key = bounds_.lower;
  seek.forward = false;
  shows_any_row_ = true;
  const int error = read_from(seek, record);
  shows_any_row_ = false;
  return error;
}

int ha_atoll::index_next(uchar *record) {
  leave_prefix();
  const int error = step(record, true);
  if (error == HA_ERR_END_OF_FILE)
    stand_at(cursor_prefix_.empty() ? layout_->index(active_index).end
                                    : atoll::codec::key_after_prefix(cursor_prefix_));
  return error;
}

int ha_atoll::index_prev(uchar *record) {
  if (!prefix_stays_) leave_prefix();
  const int error = step(record, false);
  if (error == HA_ERR_END_OF_FILE)
    stand_at(cursor_prefix_.empty() ? layout_->index(active_index).start : cursor_prefix_);
  return error;
}

// The bounds of an exact search let nothing else through.
int ha_atoll::index_next_same(uchar *record, const uchar *key, uint length) {
  if (is_point_read_) return HA_ERR_END_OF_FILE;
  return cursor_prefix_.empty() ? handler::index_next_same(record, key, length) : step(record, true);
}

// An exact search bounds what follows it only for index_next_same(); HANDLER ... NEXT goes on with larger
// keys.
void ha_atoll::leave_prefix() {
  if (cursor_prefix_.empty() || locking()) return;
  cursor_prefix_.clear();
  bounds_ = {layout_->index(active_index).start, layout_->index(active_index).end};
  cursor_positioned_ = false;
  batch_.ended = false;
}

// The bounds the server gave for this search, or all of the index, and those of an exact search. A loose scan
// stays in the last range. Any other search has no bounds, and the server may want no more than the first
// row, whatever it is: then a predicate must not send the cursor to the end of the index.
void ha_atoll::bound_scan(const Seek &seek) {
  const ah::IndexLayout &index = layout_->index(active_index);
  if (has_next_bounds_)
    std::swap(bounds_, next_bounds_);
  else
    bounds_ = {index.start, index.end};
  if (!has_next_bounds_ && seek.after && seek.key <= range_end_ && !is_mutant(Mutant::loose_range))
    bounds_.upper = range_end_;
  if (is_mutant(Mutant::range_upper)) bounds_.upper = index.end;
  if (is_mutant(Mutant::range_lower)) bounds_.lower = index.start;
  filters_rows_ =
      has_next_bounds_ || seek.whole_index || !seek.prefix.empty() || is_mutant(Mutant::first_row);
  has_next_bounds_ = false;
  cursor_prefix_ = seek.prefix;
  if (seek.prefix.empty() || is_mutant(Mutant::prefix)) return;
  if (bounds_.lower < seek.prefix) bounds_.lower = seek.prefix;
  std::string end = atoll::codec::key_after_prefix(seek.prefix);
  if (end < bounds_.upper) bounds_.upper = std::move(end);
}

bool ha_atoll::is_newer_than_snapshot(uint64_t readable_from) {
  if (readable_from == 0) return false;
  const rocksdb::Snapshot *snapshot = transaction()->snapshot(layout_->family()->side());
  return snapshot != nullptr && snapshot->GetSequenceNumber() < readable_from;
}

// Before each scan and search. A table made, copied or truncated since the transaction took its snapshot
// lacks what the snapshot would show. That is refused to reads with locks too, as InnoDB does: the
// transaction would change rows that its plain reads do not see. A new row needs no reading. Of a table that
// moved by itself plain reads have what the snapshot shows (choose_layout()).
int ha_atoll::begin_reading() {
  if (!locking()) session_->open_read_view();
  if (is_sequence() || !is_newer_than_snapshot(layout_->def().readable_from.number)) return 0;
  return locking() && layout_->former() ? 0 : HA_ERR_TABLE_DEF_CHANGED;
}

int ha_atoll::read_from(const Seek &seek, uchar *record) {
  const ah::IndexLayout &index = layout_->index(active_index);
  is_point_read_ = false;
  begin_search(index.unique && locking() && is_whole_key(seek.key, seek.parts));
  batch_.restart(is_mutant(Mutant::batch) ? ah::RowBatch::kRowsMax : rows_wanted(!seek.prefix.empty()));
  if (int error = begin_reading()) return error;
  // So does an index built since then; rows found by it with locks are the newest.
  if (!locking() && is_newer_than_snapshot(index.readable_from)) return HA_ERR_TABLE_DEF_CHANGED;
  start_protection(seek.forward || !seek.key.empty() ? seek.key : index.end, seek.forward);
  // Before the cursor is opened: it may wait for who inserts the key.
  if (Status status = protect_unique_key(seek.key, seek.parts); !status.ok()) return fail(status);
  bound_scan(seek);
  open_cursor(false);
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
  const ah::CountedPages pages(handler_stats);
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
    if (is_point_read_ || bounds_.upper.empty()) bounds_ = {index.start, index.end};
    is_point_read_ = false;
    open_cursor(false);
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
  const bool primary = active_index == MAX_KEY || layout_->is_primary(active_index);
  for (;; forward ? cursor_->Next() : cursor_->Prev()) {
    if (int error = protect_to_cursor(forward)) return error;
    if (!cursor_->Valid()) break;
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
  if (!lock_first && may_refuse_row() && !passes_predicate(current_key_, packed, &error)) return error;
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
  if (may_refuse_row() && !passes_predicate(primary_key, row_slice_.ToStringView(), &error)) {
    *found = false;
    return error;
  }
  *found = true;
  if (!write_locked_) return unpack_row({row_slice_.data(), row_slice_.size()}, record);
  row_buffer_.assign(row_slice_.data(), row_slice_.size());
  return unpack_row(row_buffer_, record);
}

int ha_atoll::read_by_primary_key(uchar *record, const std::string &key, bool filters_rows) {
  is_point_read_ = true;
  filters_rows_ = filters_rows;
  has_next_bounds_ = false;
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
  atoll::count_work(atoll::WorkKind::kRowsUnpacked);
  const Status status = index.codec->decode(entry_key.substr(atoll::codec::kKeyStartLength), entry_value,
                                            record, &key_scratch_);
  return status.ok() ? 0 : fail(status);
}

bool ha_atoll::killed() {
  if ((++rows_since_kill_check_ & 0x3FF) != 0) return false;
  return atoll::is_statement_killed(ha_thd());
}
