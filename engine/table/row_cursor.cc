// See row_cursor.h. Batches: row_batches.cc.
#include "table/row_cursor.h"

#include "base/border/assert.h"
#include "base/work.h"
#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

// Enough for the rows of most tables: the server keeps tables open for long, and the memory of a large row
// would stay with each table that had one.
constexpr size_t kKeptBytesMax = 1 << 20;

}  // namespace

void RowCursor::move_to(Place place) {
  ATOLL_ASSERT_DEAR(is_legal_move(place_, place));
  place_ = place;
}

// ---- Begin and end -------------------------------------------------------------------------------

void RowCursor::begin_index(size_t number) {
  index_ = static_cast<int>(number);
  batch_.restart();
  bounds_.restart();
  move_to(Place::kBeforeFirst);
}

void RowCursor::end_index() {
  // In all other cases the next read of the statement goes on with the open cursor.
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

// The search key of the last read does not bound the next one any more, and the rows that were read ahead are
// dropped.
void RowCursor::begin_again() {
  close();
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
  row_.Reset();
  if (row_buffer_.capacity() > kKeptBytesMax) std::string().swap(row_buffer_);
}

// ---- Searches ------------------------------------------------------------------------------------

// Reads with locks, too, must not read a table that is too new for the snapshot (as in InnoDB): the
// transaction would change rows that its plain reads do not see. An insert needs no read. A table that the
// mover has moved may be read with locks: plain reads find what the snapshot shows at its former place.
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
  // An index built after the snapshot is too new, but only for plain reads: reads with locks find the newest
  // rows by it.
  if (!table_.locking() && table_.is_newer_than_snapshot(index.readable_from)) return Status::Ok();
  guard_.start(seek.forward || !seek.key.empty() ? seek.key : index.end, seek.forward);
  // Comes before the cursor is opened, because it may wait for a transaction that inserts the key.
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
  locks_.begin_search(false);  // its row is always locked
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

// Notes where a read that found nothing has stopped: HANDLER goes on from there, in either direction.
void RowCursor::stand_at(const std::string &key) {
  key_ = key;
  move_to(Place::kAtKey);
}

// ---- Steps ---------------------------------------------------------------------------------------

// Lifts the bounds of an exact search: HANDLER ... NEXT goes on with larger keys than it has found.
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

// Compares no keys: the bounds of an exact search let no other key through.
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

// The next row in `forward` direction after the one returned last.
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

// Moves the cursor of entries to the place of key_ in the index. Returns whether there is an entry of exactly
// that key.
bool RowCursor::go_to_key(bool forward) {
  if (place_ == Place::kPoint || bounds_.is_empty()) bounds_.open(scanned_index());
  entries_.open(bounds_.current());
  entries_.seek(key_, forward);
  move_to(Place::kOnEntry);
  return entries_.valid() && entries_.key() == key_;
}

// ---- Whole tables --------------------------------------------------------------------------------

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

// HANDLER ... READ NEXT in a new statement: goes on behind the row that the former one returned.
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

// ---- Entries and rows ----------------------------------------------------------------------------

Status RowCursor::protect_to_cursor(bool forward) {
  return guard_.protect_to(&entries_, {bounds_.current(), reads_rows() ? -1 : index_, index_ < 0, forward});
}

// Looks at the entry under the cursor, and those behind it until one is accepted.
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
    if (is_locking) give_back_row();  // the server does not see it
  }
}

Status RowCursor::accept_row(uint8_t *record, Accepted *accepted) {
  const std::string_view packed = entries_.value();
  // Under range locks a row that does not match is locked too, lest it be changed into one that does.
  // So is one in pieces, which may only be read under its lock.
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
  Fetched fetched = Fetched::kAbsent;
  ATOLL_RETURN_IF_ERROR(lock_and_fetch(nullptr, record, &fetched));
  if (fetched != Fetched::kRow) {
    *accepted = Accepted::kNo;
    return Status::Ok();
  }
  // The row may have changed since the entry was read: it must still have this entry. Where its virtual
  // columns cannot be computed, the server checks the condition.
  if (!view_.compute_virtual_columns(index(), record)) return Status::Ok();
  bool has_null = false;
  layout().secondary_entry(index(), record, primary_key_, &entry_scratch_, nullptr, &has_null);
  if (entry_scratch_ != key_) *accepted = Accepted::kNo;
  return Status::Ok();
}

// Locks the row, then delivers its newest version. `seen` is what the cursor read: it is the newest version
// when nothing was committed since the cursor was opened.
Status RowCursor::lock_and_fetch(const std::string_view *seen, uint8_t *record, Fetched *fetched) {
  bool waited = false;
  const Status status = place_ == Place::kOnEntry ? locks_.lock_or_peek(primary_key_, &waited)
                                                  : locks_.lock(primary_key_, table_.mode().lock, &waited);
  *fetched = Fetched::kRefused;
  if (status.code() == Code::kLockTimeout && table_.mode().skip_locked) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(status);
  ATOLL_RETURN_IF_ERROR(check_snapshot());
  if (seen == nullptr || waited || !entries_.is_newest()) return fetch(record, fetched);
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

// The row of primary_key_ as this read sees it.
Status RowCursor::fetch(uint8_t *record, Fetched *fetched) {
  row_.Reset();
  if (!table_.locking()) table_.transaction()->make_snapshot();
  const Status status = table_.transaction()->get(table_.family(), primary_key_, table_.read_at(), &row_);
  if (status.code() == Code::kNotFound) {
    *fetched = Fetched::kAbsent;
    return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(status);
  if (locks_.returned_unlocked() && codec::is_large_row(row_.ToStringView())) {
    // Read without its lock, the pieces might be those of two versions.
    locks_.lock_returned();
    bool waited = false;
    ATOLL_RETURN_IF_ERROR(locks_.lock(primary_key_, table_.mode().lock, &waited));
    return fetch(record, fetched);
  }
  *fetched = Fetched::kRefused;
  if (filter_.may_refuse(place_ == Place::kPoint)) {
    bool passes = false;
    ATOLL_RETURN_IF_ERROR(filter_.evaluate(primary_key_, row_.ToStringView(), &passes));
    if (!passes) return Status::Ok();
  }
  *fetched = Fetched::kRow;
  return deliver(row_.ToStringView(), record);
}

// atoll_snapshot_isolation: a row that another transaction has changed since the snapshot may not be changed.
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

// The record of a row that the statement may change must outlive what was read, so it points into a copy.
Status RowCursor::deliver(std::string_view packed, uint8_t *record) {
  if (!table_.mode().may_change) return unpack(packed, record);
  row_buffer_.assign(packed);
  return unpack(row_buffer_, record);
}

Status RowCursor::unpack(std::string_view packed, uint8_t *record) {
  count_work(WorkKind::kRowsUnpacked);
  if (codec::is_large_row(packed)) {
    // `packed` may stand in row_buffer_.
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
  return scanned_index().codec->decode(key.substr(codec::kKeyStartLength), value, record, &key_scratch_);
}

}  // namespace atoll::table
