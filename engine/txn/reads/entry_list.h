// A list of entries, whose keys and values are copied into one piece of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/namespace.h"

namespace atoll::txn {

// The entries stand in the order in which they were appended. Their bytes share one string, because two
// strings for each entry would cost more than reading the entry.
class EntryList {
 public:
  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }  // number of entries
  size_t bytes() const { return bytes_.size(); }  // of all keys and values
  std::string_view key(size_t i) const { return part(start(i), places_[i].key_end); }
  std::string_view value(size_t i) const { return part(places_[i].key_end, places_[i].value_end); }

  // Reserves memory for this many entries and bytes.
  void reserve(size_t entries, size_t bytes) {
    places_.reserve(entries);
    bytes_.reserve(bytes);
  }
  // Invalidates the views handed out before. Requires: bytes() stays below 4 GiB.
  void append(std::string_view key, std::string_view value) {
    bytes_.append(key);
    const auto key_end = static_cast<uint32_t>(bytes_.size());
    bytes_.append(value);
    places_.push_back({key_end, static_cast<uint32_t>(bytes_.size())});
  }

 private:
  // Where the key and the value of an entry end in bytes_. The key begins where the previous value ends.
  struct Place {
    uint32_t key_end, value_end;
  };
  size_t start(size_t i) const { return i == 0 ? 0 : places_[i - 1].value_end; }
  std::string_view part(size_t begin, size_t end) const { return {bytes_.data() + begin, end - begin}; }

  std::vector<Place> places_;
  std::string bytes_;
};

}  // namespace atoll::txn
