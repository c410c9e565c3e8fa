// A cursor over the entries of one family between two bounds, with the transaction's own writes merged in.
//
// The bounds may be changed before each search: reads of many ranges need one iterator of RocksDB. RocksDB
// looks at them for every entry, tombstones included, so that a read never costs what lies behind its range.
//
// A small range that the optimizer's estimate has read whole may be remembered: reading it then costs no
// search.
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

// All entries of a range that ends before `upper`, in order.
struct RememberedRange {
  std::string upper;
  std::vector<std::pair<std::string, std::string>> entries;
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
    range_ = nullptr;
    return !has_own_writes_ && entries_->Refresh().ok();
  }

  // Such a cursor must be gone before the transaction rolls back to a savepoint.
  bool has_own_writes() const { return has_own_writes_; }

  // Entries of [lower, upper) only, from the next search on; it must be the next call. Requires: the cursor
  // was opened with both bounds, and the new ones lie within those.
  void set_bounds(std::string_view lower, std::string_view upper) {
    bounds_->set(lower, upper);
    if (!ranges_.empty()) range_ = find_remembered();
  }

  // Searches within exactly these bounds are answered from `range` from the next set_bounds() on.
  void remember(std::string lower, RememberedRange range) {
    if (ranges_.size() < kRememberedRangesMax && !is_mutant(Mutant::remembered))
      ranges_.insert_or_assign(std::move(lower), std::move(range));
  }

  bool Valid() const override {
    return range_ == nullptr ? entries_->Valid() : place_ < range_->entries.size();
  }
  rocksdb::Slice key() const override {
    return range_ == nullptr ? entries_->key() : rocksdb::Slice(range_->entries[place_].first);
  }
  rocksdb::Slice value() const override {
    return range_ == nullptr ? entries_->value() : rocksdb::Slice(range_->entries[place_].second);
  }
  rocksdb::Status status() const override {
    return range_ == nullptr ? entries_->status() : rocksdb::Status::OK();
  }
  void SeekToFirst() override {
    range_ == nullptr ? search([this] { entries_->SeekToFirst(); }) : stand(0);
  }
  void SeekToLast() override {
    range_ == nullptr ? search([this] { entries_->SeekToLast(); }) : stand(range_->entries.size() - 1);
  }
  void Seek(const rocksdb::Slice &target) override {
    if (range_ == nullptr) return search([&] { entries_->Seek(target); });
    for (stand(0); Valid() && key().compare(target) < 0;) stand(place_ + 1);
  }
  void SeekForPrev(const rocksdb::Slice &target) override {
    if (range_ == nullptr) return search([&] { entries_->SeekForPrev(target); });
    for (stand(range_->entries.size() - 1); Valid() && key().compare(target) > 0;) stand(place_ - 1);
  }
  void Next() override {
    count_work(WorkKind::kCursorSteps);
    range_ == nullptr ? entries_->Next() : stand(place_ + 1);
  }
  void Prev() override {
    count_work(WorkKind::kCursorSteps);
    range_ == nullptr ? entries_->Prev() : stand(place_ - 1);
  }

 private:
  template <typename Move>
  void search(const Move &move) {
    count_work(WorkKind::kCursorSeeks);
    move();
  }
  // Before the first entry is behind the last one, too.
  void stand(size_t place) { place_ = place; }
  const RememberedRange *find_remembered() const {
    const auto found = ranges_.find(bounds_->lower);
    return found != ranges_.end() && found->second.upper == bounds_->upper ? &found->second : nullptr;
  }

  const std::unique_ptr<CursorBounds> bounds_;  // lives longer than entries_
  const std::unique_ptr<rocksdb::Iterator> entries_;
  const bool has_own_writes_;
  std::map<std::string, RememberedRange> ranges_;  // by their first key
  const RememberedRange *range_ = nullptr;         // the one the bounds are of; nullptr: none
  size_t place_ = 0;                               // in it
};

}  // namespace atoll::txn
