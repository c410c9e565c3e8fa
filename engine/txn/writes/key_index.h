// The keys that a transaction has written to one family, in order: one sorted list of leaves, each of which
// has sorted slots.
//
// A search in a tree with one node per key waits for memory at each level, which is 20 times and more for a
// million keys in random order. Here the first bytes of the keys stand beside each other in the slots, so a
// search reads only some cache lines. The leaves are in a list and not in a tree, although an insertion that
// adds a leaf has to move all later leaves. Usually fewer than one insertion in a hundred adds a leaf. So,
// averaged over all insertions, this takes less than a microsecond for each, even at ten million keys, which
// fill gigabytes.
//
// An entry stays at the same address until it is erased. Iterators are valid until the next insertion or
// erasure. One thread at a time.
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

// A key, and the newest version of it that was written. nullptr: no version is left, as if the key were
// absent.
struct OwnKey {
  std::string_view key;
  OwnWrite *newest = nullptr;
};

// The index of one family of a WriteSet, which owns it. The arena of the set owns keys and versions.
class KeyIndex {
 public:
  class Iterator;

  KeyIndex() = default;
  KeyIndex(const KeyIndex &) = delete;
  KeyIndex &operator=(const KeyIndex &) = delete;

  bool empty() const { return leaves_.empty(); }
  Iterator begin() const;
  Iterator end() const;
  Iterator lower_bound(std::string_view key) const;  // first entry >= key
  Iterator upper_bound(std::string_view key) const;  // first entry > key
  // Returns the entry of `key`; nullptr: there is none.
  OwnKey *find(std::string_view key) const;

  // Requires: the index does not contain the entry's key, and `before` is lower_bound() of that key. The
  // entry must outlive the index.
  void insert(Iterator before, OwnKey *entry);
  // Requires: the index contains the key.
  void erase(std::string_view key);

  // A number that changes with each insertion and erasure, so whenever iterators become invalid.
  uint64_t version() const { return version_; }
  size_t memory_bytes() const { return leaves_.capacity() * sizeof(Leaf) + slots_bytes_; }

 private:
  // The first 16 bytes of a key, filled up with zeros. If the starts of two keys differ, the keys compare
  // like their starts.
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
  static constexpr size_t kSlotsMax = 256;  // slots of a leaf; they take 6 KiB
  struct Leaf {
    Slot first;               // a copy of the first one of `slots`, so that a search for the leaf reads less
    std::vector<Slot> slots;  // in key order
    size_t last_slot = 0;     // index of the slot that was inserted last
  };

  template <bool or_equal>
  static bool is_before(const Slot &slot, const Start &start, std::string_view key);
  template <bool or_equal>
  Iterator bound(std::string_view key) const;
  Iterator settled(size_t leaf, size_t slot) const;
  // Splits a full leaf into two. Returns the leaf and the slot number to which position `slot` of the full
  // leaf has moved.
  std::pair<size_t, size_t> split(size_t leaf, size_t slot);

  std::vector<Leaf> leaves_;  // no leaf is empty
  size_t slots_bytes_ = 0;    // memory of the slots of all leaves
  uint64_t version_ = 0;
};

// Moves over the entries in both directions. After the last entry it is end().
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
  size_t leaf_;  // at end(): the number of leaves
  size_t slot_;
};

}  // namespace atoll::txn
