// The tables that are open, and their statistics: sampled by ANALYZE, and in the background when a table has
// changed much, so that plans are good without it. The catalog stores them.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "handler/layout.h"
#include "table/statistics/row_changes.h"

namespace atoll::handler {

class Share;

// Shares register themselves, for refresh_statistics() and layout_of_open_table().
void register_share(Share *share);
// Keeps the number of rows of a share that goes, for the table's next share. The catalog writes it with its
// other statistics.
void keep_rows(const Layout &layout, int64_t rows);
void unregister_share(Share *share);

// Takes rows that were rolled back from the counts of the tables that are open. (The count of a table that
// was closed meanwhile keeps them until the next ANALYZE.)
void take_back_rows(const table::RowChanges::Counts &undone);

// The layout of an open table; nullptr: no connection has the table open.
std::shared_ptr<const Layout> layout_of_open_table(uint32_t table_id);

// Samples the open table that has changed most since it was last sampled, if one has changed by more than a
// tenth. Called by the background thread, once a second.
Status refresh_statistics(const std::function<bool()> &is_cancelled);

}  // namespace atoll::handler
