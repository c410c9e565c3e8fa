// Finds the uncommitted writes of other transactions in a range that is to be locked.
//
// A transaction's writes are private until it commits, so another transaction's scan does not see them.
// Before the scan locks a range, it asks this file for such writes. Otherwise an entry would appear in the
// locked range when its writer commits.
//
// Invariant
//   TXN-3  From its first write to a family until that write is visible to everybody or undone, a transaction
//          is counted in `writers` of that family, and find_write() finds the write.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "txn/writes/write_set.h"

namespace atoll::txn {

// The first and the last key that a transaction has written in one index. Stands for a write set that is too
// big to be kept beside the batch that is being committed, and for the writes of a transaction found prepared
// at start.
struct WriteExtent {
  uint32_t family_id = 0;
  std::string lower;  // the smallest key that was written
  std::string upper;  // the largest key that was written
};

class WriteExtents {
 public:
  void add(uint32_t family_id, std::string_view key);
  const std::vector<WriteExtent> &all() const { return extents_; }

 private:
  std::vector<WriteExtent> extents_;  // one per index
};

// One write that lies in a range.
struct FoundWrite {
  std::string entry;  // a key that was written, whose row the writer has locked
  std::string bound;  // forward: no key before this one was written; backward: no key from this one on
};

// Finds a write in [lower, upper): the first one if `forward` is true, otherwise the last one. False: there
// is none. Of an extent, all keys from `lower` to `upper` count as written, and FoundWrite::entry is the
// extent's first key, which may lie outside of the range.
bool find_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);
bool find_write(const WriteExtents &extents, uint32_t family_id, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);

// Counts for each family the transactions that have written to it and are not ended (`writers`), and those
// that have ended (`ended`). Families whose ids have the same low bits share one Place.
class FamilyActivity {
 public:
  struct alignas(64) Place {
    std::atomic<uint64_t> writers{0}, ended{0};
  };
  Place &of(uint32_t family_id) { return places_[family_id % places_.size()]; }

 private:
  std::array<Place, 256> places_;
};

}  // namespace atoll::txn
