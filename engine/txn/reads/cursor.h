// A cursor over the entries of one family between two bounds, with the transaction's own writes merged in.
//
// The bounds can change before each search, so one iterator of RocksDB can read many ranges. RocksDB compares
// every entry with the bounds, tombstones included, so a read never passes entries after its range.
//
// The cursor can remember entries that the optimizer's estimate has read. Reading a small range then costs no
// search, and reading a larger range continues where the estimate stopped.
#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "base/work.h"
#include "txn/reads/entry_list.h"
#include "txn/reads/queue_heads.h"

namespace atoll::txn {

// The bounds of a cursor. RocksDB's read options point to them.
struct CursorBounds {
  std::string lower, upper;  // empty: no bound
  rocksdb::Slice lower_slice, upper_slice;

  void set(std::string_view new_lower, std::string_view new_upper) {
    lower.assign(new_lower);
    upper.assign(new_upper);
    lower_slice = lower;
    upper_slice = upper;
  }
};

// Entries of a range that were read before, in key order.
struct RememberedRange {
  std::string upper;  // the range ends before this key
  EntryList entries;
  bool is_whole = false;  // true: `entries` are all entries of the range; false: only the first ones
};

// Made by Transaction::scan(). It must not outlive its transaction, and only the thread of the
// transaction uses it.
class Cursor final : public rocksdb::Iterator {
 public:
  static constexpr size_t kRememberedEntriesMax = 16;      // most entries of one range
  static constexpr size_t kRememberedBytesMax = 16 << 10;  // most bytes of the entries of one range
  static constexpr size_t kRememberedRangesMax = 256;      // most ranges

  // `entries` shows only entries within `bounds`, to which its read options point. `heads` may be nullptr; if
  // the cursor has own writes, `entries` uses it.
  Cursor(std::unique_ptr<CursorBounds> bounds, std::unique_ptr<HeadSearch> heads,
         std::unique_ptr<rocksdb::Iterator> entries, bool has_own_writes)
      : bounds_(std::move(bounds)),
        heads_(std::move(heads)),
        entries_(std::move(entries)),
        has_own_writes_(has_own_writes) {
    count_work(WorkKind::kCursorsOpened);
  }

  // Makes the cursor show what is committed by now, as a new cursor with ReadAt::kLatest would. Returns false
  // if that is not possible; the caller then opens a new cursor. The next call must be a search. Requires: no
  // own writes.
  bool refresh() {
    ranges_.clear();
    leave_range();
    if (has_own_writes_) return false;
    if (heads_ != nullptr) heads_->note_view();
    return entries_->Refresh().ok();
  }

  // True if the transaction's own writes are merged in. Such a cursor must be destroyed before the
  // transaction rolls back to a savepoint.
  bool has_own_writes() const { return has_own_writes_; }

  // From the next search on, shows only entries of [lower, upper). The next call must be a search. Requires:
  // the cursor was opened with both bounds, and the new bounds lie within them.
  void set_bounds(std::string_view lower, std::string_view upper) {
    if (lower != bounds_->lower || upper != bounds_->upper) under_ = nullptr;
    bounds_->set(lower, upper);
    range_ = ranges_.empty() ? nullptr : find_remembered();
  }

  // From the next set_bounds() with exactly these bounds on, the cursor answers searches from `range`. If
  // `range` contains only the first entries of the range (a start), a read that comes to the last remembered
  // entry goes on in RocksDB. This costs no search if that entry is still the current one of RocksDB's
  // iterator. Requires: `range` is whole or not empty.
  void remember(std::string lower, RememberedRange range) {
    if (is_mutant(Mutant::remembered)) return;
    if (ranges_.size() >= kRememberedRangesMax && !ranges_.contains(lower)) return;
    const bool was_read_from_memory = range_ != nullptr;
    leave_range();
    const RememberedRange &kept = ranges_.insert_or_assign(std::move(lower), std::move(range)).first->second;
    const bool is_under = !kept.is_whole && !was_read_from_memory && entries_->Valid() &&
                          entries_->key() == rocksdb::Slice(last_key(kept));
    if (is_under) under_ = &kept;
  }

  bool Valid() const override {
    return range_ == nullptr ? entries_->Valid() : place_ < range_->entries.size();
  }
  rocksdb::Slice key() const override {
    return range_ == nullptr ? entries_->key() : rocksdb::Slice(range_->entries.key(place_));
  }
  rocksdb::Slice value() const override {
    return range_ == nullptr ? entries_->value() : rocksdb::Slice(range_->entries.value(place_));
  }
  rocksdb::Status status() const override {
    return range_ == nullptr ? entries_->status() : rocksdb::Status::OK();
  }
  void SeekToFirst() override {
    range_ == nullptr ? search([this] { entries_->SeekToFirst(); }) : stand(0);
  }
  void SeekToLast() override {
    leave_start();
    range_ == nullptr ? search([this] { entries_->SeekToLast(); }) : stand(range_->entries.size() - 1);
  }
  void Seek(const rocksdb::Slice &target) override {
    if (range_ != nullptr && !range_->is_whole && target.compare(last_key(*range_)) > 0) leave_range();
    if (range_ == nullptr) return search([&] { seek_entries(target); });
    size_t place = 0;
    while (place < range_->entries.size() && range_->entries.key(place) < target.ToStringView()) ++place;
    stand(place);
  }
  void SeekForPrev(const rocksdb::Slice &target) override {
    leave_start();
    if (range_ == nullptr) return search([&] { entries_->SeekForPrev(target); });
    for (stand(range_->entries.size() - 1); Valid() && key().compare(target) > 0;) stand(place_ - 1);
  }
  void Next() override {
    count_work(WorkKind::kCursorSteps);
    range_ == nullptr ? move([this] { entries_->Next(); }) : stand(place_ + 1);
  }
  void Prev() override {
    count_work(WorkKind::kCursorSteps);
    range_ == nullptr ? move([this] { entries_->Prev(); }) : stand(place_ - 1);
  }

 private:
  void seek_entries(const rocksdb::Slice &target) {
    if (heads_ == nullptr || has_own_writes_) return entries_->Seek(target);
    heads_->seek(entries_.get(), target, *bounds_);
  }
  template <typename Move>
  void search(const Move &seek) {
    count_work(WorkKind::kCursorSeeks);
    move(seek);
  }
  // Moves RocksDB's iterator. Its current entry is then no longer the last entry of a remembered start.
  template <typename Move>
  void move(const Move &step) {
    under_ = nullptr;
    step();
  }
  // Makes entry number `place` of the remembered range the current one. If `place` is not the number of an
  // entry, the cursor is not valid: one after the last entry, or one before the first entry, which wraps
  // around to a very large number. At the last entry of a start, RocksDB's iterator takes over.
  void stand(size_t place) {
    place_ = place;
    if (range_->is_whole || place + 1 != range_->entries.size()) return;
    if (under_ != range_) search([this] { entries_->Seek(last_key(*range_)); });
    leave_range();
  }
  void leave_range() { range_ = under_ = nullptr; }
  // Leaves a range of which only the start is remembered, because a backward search cannot use it.
  void leave_start() {
    if (range_ != nullptr && !range_->is_whole) leave_range();
  }
  static std::string_view last_key(const RememberedRange &range) {
    return range.entries.key(range.entries.size() - 1);
  }
  const RememberedRange *find_remembered() const {
    const auto found = ranges_.find(bounds_->lower);
    return found != ranges_.end() && found->second.upper == bounds_->upper ? &found->second : nullptr;
  }

  const std::unique_ptr<CursorBounds> bounds_;  // must outlive entries_
  const std::unique_ptr<HeadSearch> heads_;     // must outlive entries_
  const std::unique_ptr<rocksdb::Iterator> entries_;
  const bool has_own_writes_;
  std::map<std::string, RememberedRange> ranges_;  // by their lower bounds
  const RememberedRange *range_ = nullptr;         // the remembered range of the bounds; nullptr: none
  const RememberedRange *under_ = nullptr;         // the remembered start whose last entry is the current one
                                                   // of entries_; nullptr: none
  size_t place_ = 0;                               // number of the current entry in range_
};

}  // namespace atoll::txn
