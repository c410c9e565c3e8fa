// What one transaction has written and not committed, as far as it is in memory. Each family has an ordered
// index of keys; the versions of the keys lie in an arena. Savepoints can be set and rolled back to.
//
// RocksDB's own indexed batch rebuilds its index on every rollback to a savepoint (seconds at a million
// writes). Here a rollback undoes exactly the writes made since the savepoint, newest first.
//
// Invariants
//   WRITE-1  rollback_to_savepoint() costs time in proportion to the writes that it undoes; O(1) if there are
//            none.
//   WRITE-2  After rollback_to_savepoint(), reads and scans return what they returned when the savepoint was
//            set.
//   WRITE-3  A cursor sees the writes made before it was opened and no later ones. New writes do not disturb
//            it.
// Tests: write_set_test.cc.
//
// One thread at a time; see TransactionImpl::writes_mutex_.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "lsm/family.h"
#include "txn/writes/key_index.h"

namespace rocksdb {
class WriteBatch;
}

namespace atoll::txn {

// Allocates pieces of memory one after the other, from blocks. Single pieces are not freed; rewind() frees
// everything that was allocated after a mark.
class Arena final : public std::pmr::memory_resource {
 public:
  struct Mark {
    size_t blocks = 0;  // number of blocks
    size_t used = 0;    // bytes used of the last block
  };
  std::string_view copy(std::string_view bytes);
  Mark mark() const { return {blocks_.size(), used_}; }
  void rewind(Mark mark);
  size_t bytes() const { return bytes_; }

 private:
  struct Block {
    std::unique_ptr<char[]> memory;
    size_t size = 0;
  };
  void *do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void *, size_t, size_t) override {}
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  std::vector<Block> blocks_;
  size_t used_ = 0;   // bytes used of the last block
  size_t bytes_ = 0;  // total size of all blocks
};

// One version of one key. The newest version hides the older ones.
struct OwnWrite {
  OwnWrite *older = nullptr;  // the version before this one; nullptr: none
  const char *value_bytes = nullptr;
  uint64_t sequence = 0;  // ascending in the order of writing
  uint32_t value_size = 0;
  bool removed : 1 = false;         // true: this version is a removal of the key
  uint32_t unique_length : 31 = 0;  // see Transaction::put()

  std::string_view value() const { return {value_bytes, value_size}; }
};
static_assert(sizeof(OwnWrite) == 32, "a large transaction has one for each write");

// The value that is to be written under a key, or the removal of the key.
struct NewWrite {
  std::string_view value;
  bool removed = false;
  size_t unique_length = 0;  // see Transaction::put()
};

class WriteSet {
 public:
  // The writes to one family.
  struct FamilyWrites {
    explicit FamilyWrites(lsm::Family *of) : family(of) {}
    lsm::Family *family;
    KeyIndex index;
  };

  WriteSet() = default;
  WriteSet(const WriteSet &) = delete;
  WriteSet &operator=(const WriteSet &) = delete;

  // Copies key and value. Requires: both are shorter than 4 GiB.
  void write(lsm::Family *family, std::string_view key, const NewWrite &write);
  // The newest own write of `key`; nullptr: there is none.
  const OwnWrite *find(const lsm::Family *family, std::string_view key) const;
  // Makes find_family() find `family`, although nothing is written to it yet.
  void add_family(lsm::Family *family) { family_writes(family); }
  // Returns nullptr if nothing was ever written to this family, and add_family() was not called for it.
  FamilyWrites *find_family(const lsm::Family *family) const;

  bool has_writes(lsm::Side side) const { return keys_[side == lsm::Side::kTemp] > 0; }
  uint64_t write_count() const { return write_count_; }
  size_t memory_bytes() const;

  void set_savepoint();
  void rollback_to_savepoint(size_t number);  // the savepoint itself stays
  void release_savepoint(size_t number);      // this savepoint and all later ones
  void forget_savepoint(size_t number);       // only this savepoint; later ones keep their numbers
  size_t savepoints() const { return savepoints_.size(); }
  // A write with this sequence number or a later one came after the savepoint.
  uint64_t savepoint_sequence(size_t number) const { return savepoints_[number].sequence; }

  // Returns an empty set that continues this one: it has the same savepoints and families, and continues the
  // counts.
  std::shared_ptr<WriteSet> successor() const;
  // All writes of this set have this sequence number or a higher one. Lower ones are in the sets that this
  // one continues.
  uint64_t first_sequence() const { return first_sequence_; }
  // The sequence numbers at which savepoints divide the writes into intervals, ascending. The last number is
  // greater than those of all writes. Intervals that end at first_sequence() or before have no write of this
  // set.
  std::vector<uint64_t> interval_ends() const;

  // Calls visit(family, key, newest write) for each key, family by family, in key order.
  template <typename Visit>
  void each(lsm::Side side, const Visit &visit) const {
    for (const auto &writes : families_) {
      if (writes->family->side() != side) continue;
      for (const auto &[key, newest] : writes->index) {
        if (newest != nullptr) visit(writes->family, key, *newest);
      }
    }
  }
  // Calls visit(family, key, write) for each key that was written with a sequence in [from, before), in the
  // main and in the temp database. Of several such writes of a key, only the newest is visited.
  template <typename Visit>
  void each_between(uint64_t from, uint64_t before, const Visit &visit) const {
    for (const auto &writes : families_) {
      for (const auto &[key, newest] : writes->index) {
        const OwnWrite *write = newest;
        while (write != nullptr && write->sequence >= before) write = write->older;
        if (write != nullptr && write->sequence >= from) visit(writes->family, key, *write);
      }
    }
  }
  // Forgets all writes of one side. After this call, savepoints must not be used.
  void forget(lsm::Side side);
  // The bytes that a WriteBatch of one side needs, or a little more.
  size_t batch_bytes(lsm::Side side) const;

  // For cursors only. While a cursor is open, no write that the cursor could read is freed or overwritten.
  uint64_t open_cursor() {
    ++open_cursors_;
    return next_sequence_;
  }
  void close_cursor() { --open_cursors_; }

 private:
  // A write that added a version. To undo it, undo() removes the newest version of `key`.
  struct LogEntry {
    FamilyWrites *family;
    OwnKey *key;
  };
  // The state of the write set when the savepoint was set.
  struct Savepoint {
    size_t log_size;
    uint64_t write_count;
    uint64_t sequence;  // the sequence number of the first write after the savepoint
    Arena::Mark arena;
    bool forgotten = false;  // true: kept only so that later savepoints keep their numbers
  };

  FamilyWrites *family_writes(lsm::Family *family);
  bool may_overwrite(const OwnWrite &newest) const;
  void set_value(OwnWrite *to, const NewWrite &write);
  void undo(const LogEntry &entry);
  void drop_forgotten();

  Arena arena_;
  std::vector<std::unique_ptr<FamilyWrites>> families_;
  std::vector<LogEntry> log_;  // the writes since the first savepoint
  std::vector<Savepoint> savepoints_;
  size_t keys_[2] = {0, 0};   // number of keys with a visible write, in the main and the temp database
  uint64_t write_count_ = 0;  // calls of write() that were not undone
  uint64_t first_sequence_ = 1;
  uint64_t next_sequence_ = 1;  // the sequence number of the next write
  size_t open_cursors_ = 0;     // number of cursors that are open
};

// A cursor over the own writes of one family as they were when it was opened: it shows no later write
// (WRITE-3). It shows removals, too.
class WriteCursor {
 public:
  WriteCursor(std::shared_ptr<WriteSet> set, WriteSet::FamilyWrites *writes);
  ~WriteCursor();
  WriteCursor(WriteCursor &&other) noexcept = default;  // a moved-from cursor may only be destroyed
  WriteCursor(const WriteCursor &) = delete;
  WriteCursor &operator=(const WriteCursor &) = delete;

  bool valid() const { return current_ != nullptr; }
  std::string_view key() const { return entry_->key; }
  const OwnWrite &write() const { return *current_; }
  void seek(std::string_view key);         // the first >= key
  void seek_last(std::string_view key);    // the last <= key
  void seek_before(std::string_view key);  // the last < key
  void to_first();
  void to_last();
  void next();
  void prev();

 private:
  const OwnWrite *visible() const;
  void move_to(KeyIndex::Iterator place);
  void settle_forward();
  void step_back();  // moves to the last visible entry before place_

  std::shared_ptr<WriteSet> set_;
  WriteSet::FamilyWrites *writes_;
  uint64_t before_sequence_;  // the cursor shows writes with lower sequence numbers
  KeyIndex::Iterator place_;  // valid while the version of the index is `version_`
  uint64_t version_ = 0;
  const OwnKey *entry_ = nullptr;      // the entry at place_
  const OwnWrite *current_ = nullptr;  // the version that the cursor shows; nullptr: the cursor is not valid
};

}  // namespace atoll::txn
