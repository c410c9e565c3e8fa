// See row_cursor.h. Batches: row_batches.cc.
#include "table/row_cursor.h"

#include "base/border/assert.h"
#include "base/work.h"
#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

// A larger row buffer is freed at the end of a statement. The server keeps tables open for long, so without
// this limit each table that ever had a large row would keep its memory. 1 MiB is enough for the rows of most
// tables.
constexpr size_t kKeptBytesMax = 1 << 20;

}  // namespace

void RowCursor::move_to(Place place) {
  ATOLL_ASSERT_DEAR(is_legal_move(place_, place));
  place_ = place;
}

// ---- Beginning and ending a read -----------------------------------------------------------------

void RowCursor::begin_index(size_t number) {
  index_ = static_cast<int>(number);
  batch_.restart();
  bounds_.restart();
  move_to(Place::kBeforeFirst);
}

void RowCursor::end_index() {
  // A consistent read without own writes keeps the open cursor for the next read of the statement.
  if (table_.locking() || entries_.has_own_writes()) close();
  batch_.keep_last();
  index_ = -1;
}

void RowCursor::begin_table() {
  index_ = -1;
  close();
  batch_.restart();
  filter_.ask(RowFilter::Asked::kAll);
  move_to(Place::kBeforeFirst);
}

void RowCursor::close() {
  entries_.close();
  note_moved();
  bounds_.forget_prefix();
}

void RowCursor::note_moved() {
  if (place_ == Place::kOnEntry || place_ == Place::kBehindBatch) move_to(Place::kAtKey);
}

// Removes the bounds of the last search, because they must not limit the next read, and drops the rows that
// were read ahead.
void RowCursor::begin_again() {
  close();
  lookups_.close();
  bounds_.clear();
  batch_.restart();
}

void RowCursor::end_statement() {
  close();
  batch_.restart();
  bounds_.take_back();
  filter_.set_condition(false);
  locks_.forget_newest();
  locks_.allow_semi_consistent(false);
  lookups_.close();
  row_.Reset();
  if (row_buffer_.capacity() > kKeptBytesMax) std::string().swap(row_buffer_);
}

// ---- Searches ------------------------------------------------------------------------------------

// A locking read, too, must not read a table that is too new for the snapshot (as in InnoDB), because the
// transaction would then change rows that its consistent reads do not see. An insert reads nothing and is
// allowed. If only the mover has moved the table, locking reads are allowed, because consistent reads find
// the rows of the snapshot where the table was before (Layout::former()).
bool RowCursor::begin_reading() {
  if (!table_.locking()) table_.transaction()->make_snapshot();
  if (table_.is_sequence() || !table_.is_newer_than_snapshot(layout().def().readable_from.number))
    return true;
  return table_.locking() && layout().former() != nullptr;
}

// Whether this is a locking read that gives a value for each part of a unique index, and none of them is
// NULL: then at most one row has this key.
bool RowCursor::is_one_key(const Seek &seek) const {
  const IndexLayout &index = scanned_index();
  return table_.locking() && (index.unique || index.is_long_hash) && seek.parts == index.user_parts &&
         !layout().entry_has_null(this->index(), seek.key);
}

Status RowCursor::search(const Seek &seek, uint8_t *record, Found *found) {
  const IndexLayout &index = scanned_index();
  const bool is_one_key = this->is_one_key(seek);
  locks_.begin_search(is_one_key && index.unique);
  batch_.restart(seek.rows_wanted);
  *found = Found::kTooNew;
  if (!begin_reading()) return Status::Ok();
  // An index that was built after the snapshot lacks entries for consistent reads. Locking reads may use it,
  // because they read the newest rows.
  if (!table_.locking() && table_.is_newer_than_snapshot(index.readable_from)) return Status::Ok();
  guard_.start(seek.forward || !seek.key.empty() ? seek.key : index.end, seek.forward, seek.locks_at_once);
  // The key is locked before the cursor is opened, because the lock may wait for a transaction that inserts
  // the key, and the cursor must show its row.
  if (is_one_key) ATOLL_RETURN_IF_ERROR(guard_.protect_point(index, seek.key));
  const bool may_refuse = bounds_.begin(seek, index);
  const bool is_any = seek.reach == Seek::Reach::kAnyRow;
  filter_.ask(is_any       ? RowFilter::Asked::kNothing
              : may_refuse ? RowFilter::Asked::kAll
                           : RowFilter::Asked::kEntryConditions);
  entries_.open(bounds_.current());
  entries_.seek_start(seek.key, seek.forward);
  move_to(Place::kOnEntry);
  const Status status = accept_from_here(seek.forward, record, found);
  if (is_any) filter_.ask(RowFilter::Asked::kEntryConditions);
  if (!status.ok() || *found == Found::kRow) return status;
  if (guard_.is_point()) guard_.leave_absent(index, seek.key);
  stand_at(!seek.prefix.empty() ? seek.key : seek.forward ? index.end : index.start);
  return Status::Ok();
}

Status RowCursor::get(const std::string &key, bool is_chosen, uint8_t *record, Found *found) {
  filter_.ask(is_chosen ? RowFilter::Asked::kEntryConditions : RowFilter::Asked::kAll);
  bounds_.take_back();
  locks_.begin_search(false);  // lock_and_fetch() locks the row of a point read in any case
  *found = Found::kTooNew;
  if (!begin_reading()) return Status::Ok();
  move_to(Place::kPoint);
  batch_.restart();
  key_ = primary_key_ = key;
  *found = Found::kNone;
  Fetched fetched = Fetched::kAbsent;
  ATOLL_RETURN_IF_ERROR(table_.locking() ? lock_and_fetch(nullptr, record, &fetched)
                                         : fetch(record, &fetched));
  if (fetched == Fetched::kRow)
    *found = Found::kRow;
  else if (table_.locking() && fetched == Fetched::kAbsent)
    guard_.leave_absent(scanned_index(), key);
  else if (table_.locking())
    give_back_row();
  return Status::Ok();
}

// Notes `key`, where a read that found no row has stopped. A later HANDLER statement continues from there, in
// either direction.
void RowCursor::stand_at(const std::string &key) {
  key_ = key;
  move_to(Place::kAtKey);
}

// ---- Moving to the next or the previous row ------------------------------------------------------

// Removes the bounds of an exact search without locks, because HANDLER ... NEXT continues with keys beyond
// the searched one.
void RowCursor::leave_prefix() {
  if (bounds_.prefix().empty() || table_.locking()) return;
  bounds_.forget_prefix();
  bounds_.open(scanned_index());
  note_moved();
  batch_.ended = false;
}

Status RowCursor::next(uint8_t *record, Found *found) {
  leave_prefix();
  return walk(true, record, found);
}

Status RowCursor::prev(uint8_t *record, Found *found) {
  if (!bounds_.prefix_stays()) leave_prefix();
  return walk(false, record, found);
}

// Returns the next row with the same key. It compares no keys, because the cursor's bounds are those of the
// exact search and exclude all other keys.
Status RowCursor::next_same(uint8_t *record, Found *found) {
  *found = Found::kNone;
  return place_ == Place::kPoint ? Status::Ok() : walk(true, record, found);
}

Status RowCursor::walk(bool forward, uint8_t *record, Found *found) {
  ATOLL_RETURN_IF_ERROR(step(forward, record, found));
  if (*found == Found::kRow) return Status::Ok();
  const IndexLayout &index = scanned_index();
  const std::string &prefix = bounds_.prefix();
  if (forward)
    stand_at(prefix.empty() ? index.end : codec::key_after_prefix(prefix));
  else
    stand_at(prefix.empty() ? index.start : prefix);
  return Status::Ok();
}

// Returns the row that follows the row returned last, in the direction `forward`.
Status RowCursor::step(bool forward, uint8_t *record, Found *found) {
  if (locks_.returned_unlocked()) {
    locks_.ask_again();
    return accept_from_here(forward, record, found);
  }
  if (table_.locking() && (place_ != Place::kOnEntry || forward != guard_.is_forward()))
    guard_.resume_at(key_, forward);
  if (is_batching() && forward != batch_.forward) {
    batch_.restart();
    note_moved();
  }
  if (!batch_.empty()) {
    ATOLL_RETURN_IF_ERROR(next_of_batch(record, found));
    if (*found == Found::kRow) return Status::Ok();
  }
  *found = Found::kNone;
  if (batch_.ended) return Status::Ok();
  const bool is_entry_old =
      place_ == Place::kOnEntry || (place_ != Place::kBehindBatch && go_to_key(forward));
  if (is_entry_old) entries_.step(forward);
  return accept_from_here(forward, record, found);
}

// Moves the cursor of entries to key_ in the index. Returns false when there is no entry with exactly that
// key; then the cursor is on the next entry in the direction of the read.
bool RowCursor::go_to_key(bool forward) {
  if (place_ == Place::kPoint || bounds_.is_empty()) bounds_.open(scanned_index());
  entries_.open(bounds_.current());
  entries_.seek(key_, forward);
  move_to(Place::kOnEntry);
  return entries_.valid() && entries_.key() == key_;
}

// ---- Scanning the whole table --------------------------------------------------------------------

Status RowCursor::scan(uint8_t *record, Found *found) {
  if (place_ == Place::kBeforeFirst)
    begin_scan();
  else if (locks_.returned_unlocked())
    locks_.ask_again();
  else if (entries_.is_open())
    entries_.step(true);
  else
    resume_scan();
  move_to(Place::kOnEntry);
  return accept_from_here(true, record, found);
}

void RowCursor::begin_scan() {
  const IndexLayout &index = layout().primary_index();
  locks_.begin_search(false);
  bounds_.open(index);
  entries_.open(bounds_.current(), true);
  guard_.start(index.start, true);
  entries_.seek(index.start, true);
}

// Called for HANDLER ... READ NEXT in a new statement. Continues with the row after the one that the previous
// statement returned.
void RowCursor::resume_scan() {
  bounds_.open(layout().primary_index());
  entries_.open(bounds_.current());
  entries_.seek(primary_key_, true);
  if (entries_.valid() && entries_.key() == primary_key_) entries_.step(true);
}

void RowCursor::note_row(std::string_view primary_key) {
  primary_key_.assign(primary_key);
  if (place_ == Place::kBeforeFirst) move_to(Place::kAtKey);
}

// ---- Accepting an entry, and fetching its row ----------------------------------------------------

Status RowCursor::protect_to_cursor(bool forward) {
  return guard_.protect_to(&entries_, {bounds_.current(), reads_rows() ? -1 : index_, index_ < 0, forward});
}

// Examines the entry under the cursor and then the following entries, until one is accepted.
Status RowCursor::accept_from_here(bool forward, uint8_t *record, Found *found) {
  if (is_batching()) return read_batch(forward, record, found);
  move_to(Place::kOnEntry);
  *found = Found::kNone;
  const bool is_locking = table_.locking(), are_rows = reads_rows();
  for (;; entries_.step(forward)) {
    if (is_locking) ATOLL_RETURN_IF_ERROR(protect_to_cursor(forward));
    if (!entries_.valid()) return entries_.status();
    if (is_killed()) return Status(Code::kInterrupted, "");
    locks_.forget_newest();
    key_.assign(entries_.key());
    Accepted accepted = Accepted::kNo;
    ATOLL_RETURN_IF_ERROR(are_rows ? accept_row(record, &accepted) : accept_entry(record, &accepted));
    if (accepted == Accepted::kYes) *found = Found::kRow;
    if (accepted != Accepted::kNo) return Status::Ok();
    if (is_locking) give_back_row();  // the server does not see a refused row and cannot release its lock
  }
}

Status RowCursor::accept_row(uint8_t *record, Accepted *accepted) {
  const std::string_view packed = entries_.value();
  // Two kinds of rows are locked before the condition is evaluated. Under range locks every row is locked, so
  // that no other transaction can change a row that does not match into one that does. A row in pieces is
  // locked because its pieces must not be read without its lock.
  const bool lock_first = table_.locking() && (codec::is_large_row(packed) || table_.protects_ranges());
  if (!lock_first && filter_.may_refuse()) {
    bool passes = false;
    ATOLL_RETURN_IF_ERROR(filter_.evaluate(key_, packed, &passes));
    if (!passes) return Status::Ok();
  }
  primary_key_ = key_;
  if (!table_.locking()) {
    *accepted = Accepted::kYes;
    return deliver(packed, record);
  }
  Fetched fetched = Fetched::kAbsent;
  ATOLL_RETURN_IF_ERROR(lock_and_fetch(&packed, record, &fetched));
  if (fetched == Fetched::kRow) *accepted = Accepted::kYes;
  return Status::Ok();
}

Status RowCursor::accept_entry(uint8_t *record, Accepted *accepted) {
  *accepted = Accepted::kYes;
  if (view_.has_entry_condition()) {
    ATOLL_RETURN_IF_ERROR(check_entry_condition(key_, entries_.value(), record, accepted));
    if (*accepted != Accepted::kYes) return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(layout().primary_of_entry(index(), key_, &primary_key_));
  if (!table_.locking()) return decode_entry(key_, entries_.value(), record);
  if (wanted_.locked_entries_suffice) {
    bool waited = false, newest = false;
    ATOLL_RETURN_IF_ERROR(locks_.lock(primary_key_, table_.mode().lock, &waited));
    if (!waited) ATOLL_RETURN_IF_ERROR(is_newest(&newest));
    if (newest) return decode_entry(key_, entries_.value(), record);
  }
  Fetched fetched = Fetched::kAbsent;
  ATOLL_RETURN_IF_ERROR(lock_and_fetch(nullptr, record, &fetched));
  if (fetched != Fetched::kRow) {
    *accepted = Accepted::kNo;
    return Status::Ok();
  }
  // The row may have changed since the entry was read, so this checks that it still has the entry. If the
  // virtual columns of the index cannot be computed here, the server checks the condition on the row instead.
  if (!view_.compute_virtual_columns(index(), record)) return Status::Ok();
  bool has_null = false;
  layout().secondary_entry(index(), record, primary_key_, &entry_scratch_, nullptr, &has_null);
  if (entry_scratch_ != key_) *accepted = Accepted::kNo;
  return Status::Ok();
}

// Whether the row that the cursor shows under primary_key_, which is locked, is its newest version. Another
// transaction that has changed the row since the cursor was opened has ended, because it had the lock.
Status RowCursor::is_newest(bool *newest) const {
  *newest = entries_.has_seen_all_commits();
  if (!*newest) return Status::Ok();
  // An own write that the cursor shows is not undone while the statement uses the cursor: savepoints that are
  // set within the statement are younger than the cursor.
  bool is_written = false;
  ATOLL_RETURN_IF_ERROR(entries_.find_later_own_write(primary_key_, &is_written));
  *newest = !is_written;
  return Status::Ok();
}

// Locks the row, then delivers its newest version. `seen` is the row as the cursor has read it. It is not
// read again if it is the newest version.
Status RowCursor::lock_and_fetch(const std::string_view *seen, uint8_t *record, Fetched *fetched) {
  bool waited = false;
  const Status status = place_ == Place::kOnEntry ? locks_.lock_or_peek(primary_key_, &waited)
                                                  : locks_.lock(primary_key_, table_.mode().lock, &waited);
  *fetched = Fetched::kRefused;
  if (status.code() == Code::kLockTimeout && table_.mode().skip_locked) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(status);
  ATOLL_RETURN_IF_ERROR(check_snapshot());
  bool newest = false;
  if (seen != nullptr && !waited) ATOLL_RETURN_IF_ERROR(is_newest(&newest));
  if (!newest) return fetch(record, fetched);
  const bool is_unchecked = table_.protects_ranges() || codec::is_large_row(*seen);
  if (is_unchecked && filter_.may_refuse()) {
    bool passes = false;
    ATOLL_RETURN_IF_ERROR(filter_.evaluate(primary_key_, *seen, &passes));
    if (!passes) return Status::Ok();
  }
  *fetched = Fetched::kRow;
  row_buffer_.assign(*seen);
  return unpack(row_buffer_, record);
}

// Reads the row of primary_key_ in the version that this read must see: the snapshot's or the newest.
Status RowCursor::fetch(uint8_t *record, Fetched *fetched) {
  row_.Reset();
  if (!table_.locking()) table_.transaction()->make_snapshot();
  bool exists = false;
  std::string_view packed;
  if (table_.is_sequence() || !lookups_.find(primary_key_, &exists, &packed)) {
    const Status status = table_.transaction()->get(table_.family(), primary_key_, table_.read_at(), &row_);
    exists = status.code() != Code::kNotFound;
    if (exists) ATOLL_RETURN_IF_ERROR(status);
    packed = row_.ToStringView();
  }
  if (!exists) {
    *fetched = Fetched::kAbsent;
    return Status::Ok();
  }
  if (locks_.returned_unlocked() && codec::is_large_row(packed)) {
    // A row in pieces is locked before it is read, because without the lock the pieces might belong to two
    // versions of the row.
    locks_.lock_returned();
    bool waited = false;
    ATOLL_RETURN_IF_ERROR(locks_.lock(primary_key_, table_.mode().lock, &waited));
    return fetch(record, fetched);
  }
  *fetched = Fetched::kRefused;
  if (filter_.may_refuse(place_ == Place::kPoint)) {
    bool passes = false;
    ATOLL_RETURN_IF_ERROR(filter_.evaluate(primary_key_, packed, &passes));
    if (!passes) return Status::Ok();
  }
  *fetched = Fetched::kRow;
  return deliver(packed, record);
}

// With atoll_snapshot_isolation: fails with kDeadlock if another transaction has changed the row since the
// snapshot, because then this transaction is not allowed to lock or change it.
Status RowCursor::check_snapshot() {
  txn::Transaction *transaction = table_.transaction();
  if (!table_.statement().refuses_changed_rows() || !table_.protects_ranges() || !transaction->has_snapshot())
    return Status::Ok();
  rocksdb::PinnableSlice seen, newest;
  const Status before = transaction->get(table_.family(), primary_key_, txn::ReadAt::kSnapshot, &seen);
  const Status now = transaction->get(table_.family(), primary_key_, txn::ReadAt::kLatest, &newest);
  if (before.code() == now.code() && (!now.ok() || seen == newest)) return Status::Ok();
  return Status(Code::kDeadlock, "the row was changed after this transaction's snapshot");
}

// Unpacks the row into `record`. If the statement may change the row, the record's BLOBs point into a copy,
// because the record must stay valid after the cursor has freed the row that it read.
Status RowCursor::deliver(std::string_view packed, uint8_t *record) {
  if (!table_.mode().may_change) return unpack(packed, record);
  row_buffer_.assign(packed);
  return unpack(row_buffer_, record);
}

Status RowCursor::unpack(std::string_view packed, uint8_t *record) {
  count_work(WorkKind::kRowsUnpacked);
  if (codec::is_large_row(packed)) {
    // The reference is copied, because `packed` may point into row_buffer_, which join_row_at() overwrites.
    const std::string reference(packed);
    ATOLL_RETURN_IF_ERROR(
        join_row_at(layout(), table_.transaction(), table_.read_at(), primary_key_, reference, &row_buffer_));
    packed = row_buffer_;
  }
  ATOLL_RETURN_IF_ERROR(layout().row().unpack(packed, wanted_.all ? nullptr : &wanted_.stored, record));
  view_.complete(record);
  return Status::Ok();
}

Status RowCursor::decode_entry(std::string_view key, std::string_view value, uint8_t *record) {
  count_work(WorkKind::kRowsUnpacked);
  return scanned_index().codec->decode(key.substr(codec::kKeyStartLength), value, record);
}

}  // namespace atoll::table
