// What the optimizer is told about a table: how many rows, and how many of them share a value of an index's
// first parts. Sampled by ANALYZE, and in the background when a table has changed much, so that plans are
// good without it. Stored in the catalog.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "handler/layout.h"

namespace atoll::handler {

class Share;

struct TableStatistics {
  int64_t rows = -1;  // -1: unknown
  // Per index, for its first 1, 2, ... parts, and then those of the primary key: rows per distinct value,
  // rounded, at least 1. Earlier builds stored the index's own parts only.
  std::vector<std::vector<uint64_t>> records_per_key;
};

std::string encode(const TableStatistics &statistics);
// False: not statistics, or none.
bool decode(std::string_view text, TableStatistics *statistics);

// Samples each index in pieces spread over it, about `entries_max` entries of each. `out->rows` is set only
// when an index was short enough to be read whole. Requests: one GET per piece that is not local. Errors: of
// reading; kInterrupted once `is_cancelled` (asked every thousand entries) says so.
Status sample(const Layout &layout, uint64_t entries_max, const std::function<bool()> &is_cancelled,
              TableStatistics *out);

// Shares register themselves, for refresh_statistics() and layout_of_open_table().
void register_share(Share *share);
// The count of rows of a share that goes, for the next one. The catalog writes it with its other statistics.
void keep_rows(const Layout &layout, int64_t rows);
void unregister_share(Share *share);

// nullptr: no connection has the table open.
std::shared_ptr<const Layout> layout_of_open_table(uint32_t table_id);

// Samples the open table that has changed most since it was last sampled, if one has changed by more than a
// tenth. Called by the background thread, once a second.
Status refresh_statistics(const std::function<bool()> &is_cancelled);

}  // namespace atoll::handler
