// A cursor over all own writes of a transaction in one family, those in memory and those in spilled files, as
// they were when the cursor was opened (WRITE-3). If a key was written several times, shows the newest write.
// Shows removals, too.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "txn/writes/spill.h"
#include "txn/transaction.h"
#include "txn/writes/write_set.h"

namespace atoll::txn {

// After seek() and to_first(), call only next(). After seek_last(), seek_before() and to_last(), call only
// prev().
class OwnCursor {
 public:
  // `writes` belongs to `set`; both are nullptr if no writes are in memory. `runs`: nullptr if no writes are
  // on disk. The cursor leaves out runs that have no key within `bounds`.
  OwnCursor(std::shared_ptr<WriteSet> set, WriteSet::FamilyWrites *writes, std::shared_ptr<const Runs> runs,
            const lsm::Family *family, const ScanOptions &bounds);

  bool valid() const { return current_ != kNone; }
  std::string_view key() const { return key_of(current_); }
  std::string_view value() const {
    return current_ == kMemory ? memory_->write().value() : runs_[current_ - 1]->value();
  }
  bool removed() const {
    return current_ == kMemory ? memory_->write().removed : runs_[current_ - 1]->removed();
  }
  // Errors: as a read of the files. After an error the cursor is not valid.
  Status status() const;

  void seek(std::string_view key);         // the first >= key
  void seek_last(std::string_view key);    // the last <= key
  void seek_before(std::string_view key);  // the last < key
  void to_first();
  void to_last();
  void next() { step(true); }
  void prev() { step(false); }

 private:
  // The cursor merges several sources. Source 0 is the write set in memory, source i > 0 is runs_[i - 1].
  static constexpr size_t kMemory = 0;
  static constexpr size_t kNone = SIZE_MAX;

  size_t sources() const { return runs_.size() + 1; }
  bool valid_at(size_t source) const;
  std::string_view key_of(size_t source) const {
    return source == kMemory ? memory_->key() : runs_[source - 1]->key();
  }
  void step(bool forward);
  void step_source(size_t source, bool forward);
  void settle(bool forward);
  template <typename Move>
  void move_all(const Move &move, bool forward);

  std::optional<WriteCursor> memory_;                      // nullopt: no writes are in memory
  std::shared_ptr<const Runs> kept_;                       // keeps the files of runs_ from being removed
  std::vector<std::unique_ptr<lsm::RunFileCursor>> runs_;  // the newest first
  size_t current_ = kNone;  // the source with the current write; kNone: the cursor is not valid
};

}  // namespace atoll::txn
