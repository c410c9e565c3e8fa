// The cursor over a table's entries. It is opened when it is needed, and later searches of the statement use
// it again as long as it shows the same entries as a new cursor would.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "table/open_table.h"
#include "table/search_bounds.h"
#include "txn/reads/cursor.h"

namespace atoll::table {

class EntryCursor {
 public:
  explicit EntryCursor(const OpenTable &table) : table_(table) {}

  // Makes the cursor ready for searches within `bounds`. A consistent read takes its snapshot here, if it has
  // none yet. `whole_table`: blocks are read ahead.
  void open(const Bounds &bounds, bool whole_table = false);
  // Makes the cursor ready to estimate the number of rows in a range, for statements that do not read the
  // range afterwards. The cursor shows the newest entries, and the transaction takes no snapshot.
  void open_for_estimates(const Bounds &bounds);
  bool is_for_estimates() const { return writes_ == kForEstimates; }
  // Makes a new cursor over the rows themselves, for OrderedLookups. It shows no own writes. If a step or
  // search has to pass more than `hidden_max` deleted entries and old versions, the cursor becomes invalid,
  // with an error.
  void open_for_lookups(uint64_t hidden_max);
  void close() { cursor_.reset(); }
  bool is_open() const { return cursor_ != nullptr; }
  bool has_own_writes() const { return cursor_ != nullptr && cursor_->has_own_writes(); }

  // All functions from here on require that open() or open_for_estimates() was called.
  void set_bounds(const Bounds &bounds) { cursor_->set_bounds(bounds.lower, bounds.upper); }
  // Moves forward to the first key that is not less than `key`, or backward to the last that is not greater.
  void seek(const std::string &key, bool forward) {
    forward ? cursor_->Seek(key) : cursor_->SeekForPrev(key);
  }
  // As seek(), but backward it moves to the last key that is less than `key`, or, if `key` is empty, to the
  // last key within the bounds.
  void seek_start(const std::string &key, bool forward);
  void step(bool forward) { forward ? cursor_->Next() : cursor_->Prev(); }
  bool valid() const { return cursor_->Valid(); }
  std::string_view key() const { return cursor_->key().ToStringView(); }
  std::string_view value() const { return cursor_->value().ToStringView(); }
  Status status() const { return lsm::from_rocksdb(cursor_->status()); }
  txn::Cursor *get() { return cursor_.get(); }

  // For locking reads: whether the cursor shows all commits, because no other transaction that wrote to this
  // family has ended since the cursor was opened.
  bool has_seen_all_commits() const {
    return table_.transaction()->commits_seen(table_.family()) == commits_;
  }
  // Whether the transaction itself has written since the cursor was opened, to whatever table. The cursor
  // does not show these writes.
  bool has_later_own_writes() const { return table_.transaction()->write_count() != writes_; }
  // Sets *found to whether the transaction itself has written `key` since the cursor was opened; also true
  // for an earlier write, if it has written anything since. Errors: as Transaction::has_written().
  Status find_later_own_write(std::string_view key, bool *found) const;

 private:
  static constexpr uint64_t kForEstimates = UINT64_MAX;

  bool is_current() const;
  void note_opening();
  std::unique_ptr<txn::Cursor> make(txn::ReadAt at, txn::ScanOptions options) const;

  const OpenTable &table_;
  std::unique_ptr<txn::Cursor> cursor_;
  uint64_t writes_ = 0;    // number of own writes at the opening; kForEstimates: opened only for estimates
  uint64_t sequence_ = 0;  // of a locking read: the newest committed write when the cursor was opened
  uint64_t commits_ = 0;   // Transaction::commits_seen() before the cursor was opened
};

}  // namespace atoll::table
