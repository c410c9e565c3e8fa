// Finds the uncommitted writes of other transactions in a range that is to be locked.
//
// A transaction's writes are private until it commits, so another transaction's scan does not see them.
// Before a scan locks a range, it calls the functions of this file to find such writes. Otherwise an entry
// would appear in the locked range when the writer of the entry commits.
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

// The extents of one transaction's writes.
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
  std::string bound;  // forward: no key in the range before this one was written; backward: no key from this
                      // one on was written
};

// Finds a write in [lower, upper): the first one if `forward` is true, otherwise the last one. Returns false
// if there is none. Of an extent, all keys from WriteExtent::lower to WriteExtent::upper count as written,
// and FoundWrite::entry is the extent's first key, which can lie outside of the range. With extents the range
// must lie in one index: there is one extent of it at most, so the first one that is found is the only one.
bool find_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);
bool has_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
               std::string_view upper);
bool find_write(const WriteExtents &extents, uint32_t family_id, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);

// Counts for each family the transactions that have written to it and have not ended (`writers`), and those
// that have ended (`ended`). Families whose ids are equal modulo 256 share their counts (one Place): a count
// can be too high, which costs time but does no harm.
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
