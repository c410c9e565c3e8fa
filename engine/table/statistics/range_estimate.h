// Estimates the number of entries in a range of an index, for the optimizer.
//
// In a secondary index up to a hundred entries are counted, because a lookup of their rows costs ten times as
// much. In the primary index counting would double the cost of a read, so only a range that seems to have at
// most 16 rows is counted. For a larger range the estimate measures how dense the keys are, by the distance
// between the first keys of the range and between some keys in its middle. This takes at most three searches
// and 24 steps. If the result is more than 1024 rows, or the two densities differ much, the sizes of files
// are used instead. They are exact enough for large ranges, but useless for small ones. The estimate uses the
// cursor with which the statement reads afterwards, so the read does not search for these entries again.
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

// Results of estimates of one table that later estimates use. All handlers that have the table open share it.
// Threads: any.
class EstimateCache {
 public:
  // The density of primary keys, from the last estimate that probed both the start and the middle of a range.
  // It is the number of rows per difference of 1 between two keys whose first 8 bytes are taken as a number.
  // So densities of ranges whose keys have other bytes in common can be compared.
  std::atomic<double> key_density{0};  // 0: unknown
  // The number of estimates that have found about this density at the start of a range. All but every 32nd of
  // them have not probed the middle.
  std::atomic<uint32_t> trusted_densities{0};

  // The number of entries of an index, by the sizes of files. `count` computes it; its result is kept for a
  // second.
  uint64_t index_entries(size_t index, const std::function<uint64_t()> &count);

 private:
  struct IndexEntries {
    uint64_t entries = 0;
    std::chrono::steady_clock::time_point counted_at{};
  };
  Mutex mutex_;
  std::map<size_t, IndexEntries> index_entries_ ATOLL_GUARDED_BY(mutex_);
};

// A range whose entries are to be estimated, for the running statement.
struct EstimateRequest {
  size_t index = 0;
  Bounds bounds;          // the range to estimate; lower < upper
  double table_rows = 1;  // the number of rows of the table, as the statistics know it
  // Whether the statement reads the range afterwards. False in EXPLAIN, for example: then the newest entries
  // are counted, and the transaction takes no snapshot.
  bool is_read_afterwards = true;
};

// Returns the estimate: at least 1 and at most `table_rows`, or the number of counted entries if that is
// larger. Moves the reader's cursor of entries. Requests to the bucket: as a read of the counted
// entries, a hundred at most. If the range cannot be read, the entries read so far are the estimate, and the
// statement's read reports the error.
uint64_t estimate_rows(RowCursor *reader, lsm::Figures *figures, EstimateCache *cache,
                       const EstimateRequest &request);

}  // namespace atoll::table
