// The keys that a transaction has written to one family, in order: leaves of sorted slots under one sorted
// list of leaves.
//
// A search in a tree with one node per key waits for memory at each level: 20 levels and more at a million
// keys in random order. Here the first bytes of keys stand beside each other in the slots, so a search reads
// only some cache lines. The leaves are in one list, not in a tree: even at ten million keys, which fill
// gigabytes, an insertion that moves the end of the list takes less than a microsecond for it.
//
// Entries stay where they are until they are erased; iterators are valid until the next insertion or erasure.
// One thread at a time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/namespace.h"

namespace atoll::txn {

struct OwnWrite;

// A key, and the newest version of it that was written; nullptr: none is left, as if the key were absent.
struct OwnKey {
  std::string_view key;
  OwnWrite *newest = nullptr;
};

class KeyIndex {
 public:
  class Iterator;

  KeyIndex() = default;
  KeyIndex(const KeyIndex &) = delete;
  KeyIndex &operator=(const KeyIndex &) = delete;

  bool empty() const { return leaves_.empty(); }
  Iterator begin() const;
  Iterator end() const;
  Iterator lower_bound(std::string_view key) const;  // the first >= key
  Iterator upper_bound(std::string_view key) const;  // the first > key
  // Returns the entry of `key`; nullptr: there is none.
  OwnKey *find(std::string_view key) const;

  // Requires: `before` is lower_bound() of the entry's key, which is not there. The entry must outlive the
  // index.
  void insert(Iterator before, OwnKey *entry);
  // Requires: the key is there.
  void erase(std::string_view key);

  // A number that changes with each insertion and erasure, that is, when iterators become invalid.
  uint64_t version() const { return version_; }
  size_t memory_bytes() const { return leaves_.capacity() * sizeof(Leaf) + slots_bytes_; }

 private:
  // The first 16 bytes of a key, filled up with zeros. Two keys whose starts differ compare as their starts
  // do.
  struct Start {
    explicit Start(std::string_view key);
    Start() = default;
    auto operator<=>(const Start &) const = default;
    uint64_t high = 0;
    uint64_t low = 0;
  };
  struct Slot {
    Start start;
    OwnKey *entry = nullptr;
  };
  static constexpr size_t kSlotsMax = 256;  // of a leaf: 6 KiB
  struct Leaf {
    Slot first;  // that of `slots`
    std::vector<Slot> slots;
    size_t last_slot = 0;  // of the last insertion
  };

  template <bool or_equal>
  static bool is_before(const Slot &slot, const Start &start, std::string_view key);
  template <bool or_equal>
  Iterator bound(std::string_view key) const;
  Iterator settled(size_t leaf, size_t slot) const;
  // Makes room in a full leaf; returns the leaf and slot that its `slot` has become.
  std::pair<size_t, size_t> split(size_t leaf, size_t slot);

  std::vector<Leaf> leaves_;  // none is empty
  size_t slots_bytes_ = 0;
  uint64_t version_ = 0;
};

// Moves over the entries in both directions. Behind the last one it is end().
class KeyIndex::Iterator {
 public:
  OwnKey &operator*() const { return *index_->leaves_[leaf_].slots[slot_].entry; }
  OwnKey *operator->() const { return &**this; }
  Iterator &operator++();
  Iterator &operator--();
  bool operator==(const Iterator &other) const { return leaf_ == other.leaf_ && slot_ == other.slot_; }

 private:
  friend class KeyIndex;
  Iterator(const KeyIndex *index, size_t leaf, size_t slot) : index_(index), leaf_(leaf), slot_(slot) {}

  const KeyIndex *index_;
  size_t leaf_;  // number of leaves: at the end
  size_t slot_;
};

}  // namespace atoll::txn
