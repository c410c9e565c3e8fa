// Keeps a list of the open tables, and updates their statistics. ANALYZE samples a table. A background thread
// samples a table that has changed much, so that plans are good without ANALYZE. The catalog stores the
// statistics.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"
#include "handler/layout.h"
#include "table/statistics/row_changes.h"

namespace atoll::handler {

class Share;

// Shares register themselves, for refresh_statistics() and layout_of_open_table().
void register_share(Share *share);
// Whether no open partition of the same table has more rows. True for a table that is not partitioned.
bool is_largest_partition(const Share &share);
// Stores the number of rows of a share that is being destroyed, for the next share of the table. The catalog
// writes it to disk later, with its other statistics.
void keep_rows(const Layout &layout, int64_t rows);
void unregister_share(Share *share);

// Subtracts rows that were rolled back from the row counts of the open tables. The count of a table that was
// closed meanwhile stays wrong until the next ANALYZE.
void take_back_rows(const table::RowChanges::Counts &undone);

// Notes that a transaction with these changes was committed now.
void note_update_times(const table::RowChanges::Counts &changes);
// When a commit last changed the table, in seconds since 1970; 0: not since the server started. A commit of a
// prepared XA transaction by another connection is not noted.
int64_t update_time_s(uint32_t table_id);

// The layout of an open table; nullptr: no connection has the table open.
std::shared_ptr<const Layout> layout_of_open_table(uint32_t table_id);

// Within this time refresh_statistics() begins samples.
constexpr std::chrono::milliseconds kSamplingTime(200);
// Samples the open tables that have changed most since they were last sampled, if their number of rows has
// changed by more than 16 plus a tenth of the rows at that sample. A partition counts as a table. Called by
// the background thread, once a second.
Status refresh_statistics(const std::function<bool()> &is_cancelled);

}  // namespace atoll::handler
