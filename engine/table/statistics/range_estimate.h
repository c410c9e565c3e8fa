// How many entries lie in a range of an index, for the optimizer.
//
// Entries of secondary indexes are counted, up to a hundred: looking up their rows costs ten times as much.
// In the primary index counting would double the cost of a read. There a range that seems to have 16 at most
// is counted; for more, the distance between the first keys, and between some in the middle, tells how dense
// the keys are: three searches and 24 steps at most. Where that says "many", or the two places disagree, the
// sizes of files are asked. They know large ranges well and small ones not at all. All of it uses the cursor
// that the statement reads with afterwards; what it has read is not searched for again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "lsm/figures/figures.h"
#include "table/row_cursor.h"
#include "table/search_bounds.h"

namespace atoll::table {

// What the estimates of one table have found, kept for the next ones. Shared by all that have the table open.
// Threads: any.
class EstimateCache {
 public:
  // Rows for each step of the primary keys' scale, as the last estimate found it at two places.
  std::atomic<double> key_density{0};  // 0: unknown
  std::atomic<uint32_t> trusted_densities{0};

  // How many entries an index has, by the sizes of files: what `count` returned, kept for a second.
  uint64_t index_entries(size_t index, const std::function<uint64_t()> &count);

 private:
  struct IndexEntries {
    uint64_t entries = 0;
    std::chrono::steady_clock::time_point counted_at{};
  };
  Mutex mutex_;
  std::map<size_t, IndexEntries> index_entries_ ATOLL_GUARDED_BY(mutex_);
};

struct EstimateRequest {
  size_t index = 0;
  Bounds bounds;          // lower < upper
  double table_rows = 1;  // as far as is known
  // False, as in EXPLAIN: the newest entries are counted, and the transaction's snapshot is not taken.
  bool is_read_afterwards = true;
};

// The estimate: at least 1, and no more than the table has, unless more were counted. Moves the cursor of
// entries. Requests to the bucket: as a read of the entries that are counted, a hundred at most. A range that
// cannot be read counts as what was read of it: the statement's read says why.
uint64_t estimate_rows(RowCursor *reader, lsm::Figures *figures, EstimateCache *cache,
                       const EstimateRequest &request);

}  // namespace atoll::table
