// A set of keys as disjoint ranges [lower, upper) in byte order: what one transaction protects in one index.
//
// The memory is bounded: beyond ranges_max ranges neighbours are joined over the keys between them. The set
// only ever grows by that, so it protects too much, never too little.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace atoll::txn {

class KeyRanges {
 public:
  static constexpr size_t kRangesMax = 4096;  // about 600 KB with keys of 30 bytes

  // Requires: both not empty. lower >= upper: adds nothing.
  void add(std::string_view lower, std::string_view upper, size_t ranges_max = kRangesMax);
  bool contains(std::string_view key) const;
  size_t size() const { return ranges_.size(); }

  // Calls visit(lower, upper) for each range, in order.
  template <typename Visit>
  void each(const Visit &visit) const {
    for (const auto &[lower, upper] : ranges_) visit(lower, upper);
  }

 private:
  using Map = std::map<std::string, std::string, std::less<>>;
  void join_with_followers(Map::iterator it);
  void halve();

  Map ranges_;  // lower -> upper; touching ranges are one
};

}  // namespace atoll::txn
