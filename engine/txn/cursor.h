// A cursor over the entries of one family between two bounds, with the transaction's own writes merged in.
//
// The bounds may be changed before each search: reads of many ranges need one iterator of RocksDB. RocksDB
// looks at them for every entry, tombstones included, so that a read never costs what lies behind its range.
//
// What the optimizer's estimate has read may be remembered: reading a small range then costs no search, and
// reading a larger one goes on where the estimate has stopped.
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
#include "txn/entry_list.h"

namespace atoll::txn {

// What RocksDB's read options point to.
struct CursorBounds {
  std::string lower, upper;  // empty: none
  rocksdb::Slice lower_slice, upper_slice;

  void set(std::string_view new_lower, std::string_view new_upper) {
    lower.assign(new_lower);
    upper.assign(new_upper);
    lower_slice = lower;
    upper_slice = upper;
  }
};

// All entries of a range that ends before `upper`, or the first ones, in order.
struct RememberedRange {
  std::string upper;
  EntryList entries;
};

class Cursor final : public rocksdb::Iterator {
 public:
  static constexpr size_t kRememberedEntriesMax = 16;
  static constexpr size_t kRememberedBytesMax = 16 << 10;  // of one range
  static constexpr size_t kRememberedRangesMax = 256;

  // `entries` is bounded by `bounds`, which it may point into.
  Cursor(std::unique_ptr<CursorBounds> bounds, std::unique_ptr<rocksdb::Iterator> entries,
         bool has_own_writes)
      : bounds_(std::move(bounds)), entries_(std::move(entries)), has_own_writes_(has_own_writes) {
    count_work(WorkKind::kCursorsOpened);
  }

  // Shows what is committed by now, as a new cursor of ReadAt::kLatest would; false: a new one is needed. A
  // search must follow. Requires: no own writes.
  bool refresh() {
    ranges_.clear();
    forget_start();
    return !has_own_writes_ && entries_->Refresh().ok();
  }

  // Such a cursor must be gone before the transaction rolls back to a savepoint.
  bool has_own_writes() const { return has_own_writes_; }

  // Entries of [lower, upper) only, from the next search on; it must be the next call. Requires: the cursor
  // was opened with both bounds, and the new ones lie within those.
  void set_bounds(std::string_view lower, std::string_view upper) {
    if (has_start_ && lower == start_lower_ && upper == start_.upper) {
      range_ = &start_;
      return;
    }
    forget_start();
    bounds_->set(lower, upper);
    if (!ranges_.empty()) range_ = find_remembered();
  }

  // Searches within exactly these bounds are answered from `range` from the next set_bounds() on.
  void remember(std::string lower, RememberedRange range) {
    if (ranges_.size() < kRememberedRangesMax && !is_mutant(Mutant::remembered))
      ranges_.insert_or_assign(std::move(lower), std::move(range));
  }

  // The first entries of the range between the present bounds; the last of them is the one under the cursor.
  // If the next search is one for `lower` within the same bounds, it shows these and goes on behind them. Any
  // other move forgets them. Requires: `start` is not empty.
  void remember_start(std::string lower, RememberedRange start) {
    if (is_mutant(Mutant::remembered)) return;
    start_lower_ = std::move(lower);
    start_ = std::move(start);
    has_start_ = true;
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
    leave_start();
    range_ == nullptr ? search([this] { entries_->SeekToFirst(); }) : stand(0);
  }
  void SeekToLast() override {
    leave_start();
    range_ == nullptr ? search([this] { entries_->SeekToLast(); }) : stand(range_->entries.size() - 1);
  }
  void Seek(const rocksdb::Slice &target) override {
    if (range_ == &start_ && target == rocksdb::Slice(start_lower_)) return stand(0);
    leave_start();
    if (range_ == nullptr) return search([&] { entries_->Seek(target); });
    for (stand(0); Valid() && key().compare(target) < 0;) stand(place_ + 1);
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
  template <typename Move>
  void search(const Move &seek) {
    count_work(WorkKind::kCursorSeeks);
    move(seek);
  }
  // Of the iterator below.
  template <typename Move>
  void move(const Move &step) {
    has_start_ = false;
    step();
  }
  // Before the first entry is behind the last one, too. The iterator stands on the last entry of a start.
  void stand(size_t place) {
    place_ = place;
    if (range_ == &start_ && place + 1 == start_.entries.size()) forget_start();
  }
  void forget_start() {
    has_start_ = false;
    range_ = nullptr;
  }
  void leave_start() {
    if (range_ == &start_) forget_start();
  }
  const RememberedRange *find_remembered() const {
    const auto found = ranges_.find(bounds_->lower);
    return found != ranges_.end() && found->second.upper == bounds_->upper ? &found->second : nullptr;
  }

  const std::unique_ptr<CursorBounds> bounds_;  // lives longer than entries_
  const std::unique_ptr<rocksdb::Iterator> entries_;
  const bool has_own_writes_;
  std::map<std::string, RememberedRange> ranges_;  // by their first key
  std::string start_lower_;
  RememberedRange start_;
  bool has_start_ = false;                  // start_ is that of the present bounds
  const RememberedRange *range_ = nullptr;  // the one the bounds are of; nullptr: none
  size_t place_ = 0;                        // in it
};

}  // namespace atoll::txn
