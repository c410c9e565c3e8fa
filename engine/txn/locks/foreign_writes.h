// The uncommitted writes of other transactions, as far as a range lock must know them.
//
// A transaction's writes are private until it commits, so the scan of another transaction does not meet them.
// Before the scan locks a range it must ask for them here: otherwise an entry would appear in the locked
// range when its writer commits.
//
// Invariant
//   TXN-3  From its first write to a family until that write is visible to everybody or undone, a transaction
//          is counted in `writers` of that family and shows the write to find_write().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "txn/writes/write_set.h"

namespace atoll::txn {

// The keys of one index that a transaction may have written. Used where the write set is too big to keep
// beside the batch that is being committed, and for transactions found prepared at start.
struct WriteExtent {
  uint32_t family_id = 0;
  std::string lower;  // a key that was written
  std::string upper;  // the last one
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
  std::string entry;  // a key whose row the writer has locked
  std::string bound;  // forward: nothing before it was written; backward: nothing from it on
};

// The first write in [lower, upper) in the direction asked for. False: none.
bool find_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);
bool find_write(const WriteExtents &extents, uint32_t family_id, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found);

// Counts for each family (families with the same low bits share a place) the transactions that have written
// to it and not ended, and those that have ended.
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
