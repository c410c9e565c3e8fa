// A set of keys, stored as disjoint ranges [lower, upper) in byte order. It holds the keys that one
// transaction has locked in one index.
//
// The memory is bounded. With more than ranges_max ranges, the set joins neighbouring ranges and thereby adds
// the keys between them. So the transaction locks too many keys, never too few.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace atoll::txn {

class KeyRanges {
 public:
  static constexpr size_t kRangesMax = 4096;  // about 600 KB with keys of 30 bytes

  // Adds [lower, upper) to the set, nothing if lower >= upper. Requires: both bounds are not empty strings.
  void add(std::string_view lower, std::string_view upper, size_t ranges_max = kRangesMax);
  bool contains(std::string_view key) const;
  // Whether the set has a key in [lower, upper). Requires: lower < upper.
  bool overlaps(std::string_view lower, std::string_view upper) const;
  size_t size() const { return ranges_.size(); }

  // Calls visit(lower, upper) for each range, in order.
  template <typename Visit>
  void each(const Visit &visit) const {
    for (const auto &[lower, upper] : ranges_) visit(lower, upper);
  }

 private:
  using Map = std::map<std::string, std::string, std::less<>>;
  void join_with_followers(Map::iterator it);  // joins the range with later ranges that it now touches
  void halve();                                // joins the ranges in pairs, with the keys between them

  Map ranges_;  // lower -> upper; ranges that touch each other are stored as one
};

}  // namespace atoll::txn
