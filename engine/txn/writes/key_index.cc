// See key_index.h.
#include "txn/writes/key_index.h"

#include <algorithm>
#include <tuple>

#include "base/bytes.h"

namespace atoll::txn {

KeyIndex::Start::Start(std::string_view key)
    : high(load_be_start(key)), low(key.size() > 8 ? load_be_start(key.substr(8)) : 0) {}

// True if the key in `slot` is less than `key` or, if `or_equal` is true, equal to it. `start` is Start(key).
template <bool or_equal>
bool KeyIndex::is_before(const Slot &slot, const Start &start, std::string_view key) {
  if (slot.start != start) return slot.start < start;
  const int order = slot.entry->key.compare(key);
  return or_equal ? order <= 0 : order < 0;
}

// Returns the first slot with a key >= `key` or, if `or_equal` is true, with a key > `key`.
template <bool or_equal>
KeyIndex::Iterator KeyIndex::bound(std::string_view key) const {
  const Start start(key);
  const auto leaf = std::partition_point(leaves_.begin(), leaves_.end(), [&](const Leaf &each) {
    return is_before<or_equal>(each.first, start, key);
  });
  if (leaf == leaves_.begin()) return begin();
  const size_t number = static_cast<size_t>(leaf - leaves_.begin()) - 1;
  const std::vector<Slot> &slots = leaves_[number].slots;
  const auto slot = std::partition_point(
      slots.begin(), slots.end(), [&](const Slot &each) { return is_before<or_equal>(each, start, key); });
  return settled(number, static_cast<size_t>(slot - slots.begin()));
}

// Returns an iterator for this slot. One slot after the last one of a leaf means the first slot of the next
// leaf.
KeyIndex::Iterator KeyIndex::settled(size_t leaf, size_t slot) const {
  if (leaf < leaves_.size() && slot == leaves_[leaf].slots.size()) return {this, leaf + 1, 0};
  return {this, leaf, slot};
}

KeyIndex::Iterator KeyIndex::begin() const { return {this, 0, 0}; }
KeyIndex::Iterator KeyIndex::end() const { return {this, leaves_.size(), 0}; }
KeyIndex::Iterator KeyIndex::lower_bound(std::string_view key) const { return bound<false>(key); }
KeyIndex::Iterator KeyIndex::upper_bound(std::string_view key) const { return bound<true>(key); }

OwnKey *KeyIndex::find(std::string_view key) const {
  const Iterator place = lower_bound(key);
  return place != end() && place->key == key ? &*place : nullptr;
}

std::pair<size_t, size_t> KeyIndex::split(size_t leaf, size_t slot) {
  std::vector<Slot> &full = leaves_[leaf].slots;
  // If keys come in ascending order, splits the leaf where the new key belongs. Such keys then fill one leaf
  // after the other, even if greater keys are in the index already.
  const bool in_order = slot == leaves_[leaf].last_slot + 1;
  const size_t kept = in_order ? std::min(slot, full.size() - 1) : full.size() / 2;
  Leaf next;
  next.slots.reserve(kSlotsMax);
  next.slots.assign(full.begin() + static_cast<ptrdiff_t>(kept), full.end());
  next.first = next.slots.front();
  slots_bytes_ += kSlotsMax * sizeof(Slot);
  full.resize(kept);
  leaves_.insert(leaves_.begin() + static_cast<ptrdiff_t>(leaf) + 1, std::move(next));
  return slot > kept ? std::pair(leaf + 1, slot - kept) : std::pair(leaf, slot);
}

void KeyIndex::insert(Iterator before, OwnKey *entry) {
  ++version_;
  size_t leaf = before.leaf_;
  size_t slot = before.slot_;
  if (leaves_.empty()) leaves_.emplace_back();
  if (slot == 0 && leaf > 0) slot = leaves_[--leaf].slots.size();  // prefer the end of the previous leaf
  if (leaves_[leaf].slots.size() == kSlotsMax) std::tie(leaf, slot) = split(leaf, slot);
  std::vector<Slot> &slots = leaves_[leaf].slots;
  const size_t capacity = slots.capacity();
  slots.insert(slots.begin() + static_cast<ptrdiff_t>(slot), {Start(entry->key), entry});
  slots_bytes_ += (slots.capacity() - capacity) * sizeof(Slot);
  leaves_[leaf].last_slot = slot;
  if (slot == 0) leaves_[leaf].first = slots.front();
}

void KeyIndex::erase(std::string_view key) {
  const Iterator place = lower_bound(key);
  ++version_;
  const auto leaf = leaves_.begin() + static_cast<ptrdiff_t>(place.leaf_);
  std::vector<Slot> &slots = leaf->slots;
  slots.erase(slots.begin() + static_cast<ptrdiff_t>(place.slot_));
  if (!slots.empty()) {
    leaf->first = slots.front();
    return;
  }
  slots_bytes_ -= slots.capacity() * sizeof(Slot);
  leaves_.erase(leaf);
}

KeyIndex::Iterator &KeyIndex::Iterator::operator++() { return *this = index_->settled(leaf_, slot_ + 1); }

KeyIndex::Iterator &KeyIndex::Iterator::operator--() {
  if (slot_ == 0) slot_ = index_->leaves_[--leaf_].slots.size();
  --slot_;
  return *this;
}

}  // namespace atoll::txn
