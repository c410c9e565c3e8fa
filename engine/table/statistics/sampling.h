// The statistics of a table for the optimizer: its number of rows, and for each index how many rows on
// average have the same value in its first parts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/figures/figures.h"
#include "table/layout.h"

namespace atoll::table {

struct TableStatistics {
  int64_t rows = -1;  // the number of rows of the table; -1: unknown
  // The number of rows when records_per_key was sampled. It is less than `rows` if `rows` included rows of
  // transactions that were not committed then. -1: never sampled. Earlier builds did not store this number,
  // so decode() takes `rows` for their texts.
  int64_t sampled_rows = -1;
  // For each index, for its first part, for its first two parts and so on: the number of rows per distinct
  // value of these parts, rounded, and at least 1. The parts of the primary key follow those of the index.
  // Earlier builds stored only the index's own parts.
  std::vector<std::vector<uint64_t>> records_per_key;
};

// Returns the text in which the catalog stores the statistics.
std::string encode(const TableStatistics &statistics);
// Returns false when the text is empty or is not a text of encode(). Then *statistics is not to be used.
bool decode(std::string_view text, TableStatistics *statistics);

// Samples about `entries_max` entries of each index, in pieces that are spread over the index. `out->rows` is
// set only if an index was short enough to be read whole. `out->sampled_rows` is never set, because the
// caller may know of more rows, which are not committed yet. Requests: one GET per piece that is not
// local. Errors: of reading; kInterrupted once `is_cancelled`, which is asked every thousand entries, returns
// true.
Status sample(const Layout &layout, lsm::Figures *figures, uint64_t entries_max,
              const std::function<bool()> &is_cancelled, TableStatistics *out);

}  // namespace atoll::table
