// Reading rows that are stored in pieces (codec/large_row.h).
#pragma once

#include "handler/server.h"

#include <string>
#include <string_view>

#include "handler/layout.h"

namespace atoll::handler {

// The row that `stored` stands for in the database as of `snapshot` (nullptr: now): itself, or put together
// in `buffer`, which is otherwise left alone. What a transaction has not committed is not seen. Errors:
// kCorruption, kUnavailable.
Status whole_row_at(const Layout &layout, const rocksdb::Snapshot *snapshot, std::string_view primary_key,
                    std::string_view stored, std::string *buffer, std::string_view *row);

// Pieces stand under the primary key. While another one is built beside it, rows are stored whole.
inline constexpr char kPiecesHinderRekey[] =
    "rows larger than 4 MiB are stored in pieces under the primary key";

// How many pieces of rows the table has; at most `count_max` are counted.
Status count_row_pieces(const Layout &layout, uint64_t count_max, uint64_t *count);

}  // namespace atoll::handler
