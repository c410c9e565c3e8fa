// What the optimizer is told about a table: how many rows, and how many of them share a value of an index's
// first parts.
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
  int64_t rows = -1;  // -1: unknown
  // How many rows there were when records_per_key was sampled: fewer than `rows` if some were of transactions
  // that were not committed then. -1: never sampled. Earlier builds did not store it; decode() takes `rows`
  // then.
  int64_t sampled_rows = -1;
  // Per index, for its first 1, 2, ... parts, and then those of the primary key: rows per distinct value,
  // rounded, at least 1. Earlier builds stored the index's own parts only.
  std::vector<std::vector<uint64_t>> records_per_key;
};

// The text in which the catalog stores them.
std::string encode(const TableStatistics &statistics);
// False: the text is empty, or is not statistics.
bool decode(std::string_view text, TableStatistics *statistics);

// Samples each index in pieces spread over it, about `entries_max` entries of each. `out->rows` is set only
// when an index was short enough to be read whole, `out->sampled_rows` never: the caller may know of more.
// Requests: one GET per piece that is not local. Errors: of reading; kInterrupted once `is_cancelled` (asked
// every thousand entries) says so.
Status sample(const Layout &layout, lsm::Figures *figures, uint64_t entries_max,
              const std::function<bool()> &is_cancelled, TableStatistics *out);

}  // namespace atoll::table
