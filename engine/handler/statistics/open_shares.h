// The tables that are open, and their statistics: sampled by ANALYZE, and in the background when a table has
// changed much, so that plans are good without it. The catalog stores them.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "handler/layout.h"

namespace atoll::handler {

class Share;

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
