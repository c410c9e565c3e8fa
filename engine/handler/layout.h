// A table's layout (table/layout.h), made from a TABLE_SHARE and its catalog definition.
#pragma once

#include <memory>

#include "table/layout.h"

struct TABLE;

namespace atoll::handler {

using table::append_hidden_id;
using table::hidden_id_of;
using table::IndexLayout;
using table::kHiddenIdLength;
using table::Layout;

// `table` gives the indexes as an engine sees them (long unique keys by their hash column).
// Errors: kInvalid when table and definition do not agree (the definition changed: rediscover).
Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out);

// The first or last key of an index; empty: it has none. What is not committed is not seen.
Status outermost_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

// As outermost_key(), but also sees what open and prepared transactions have written: the share that counts
// numbers may be gone while such a transaction goes on (FLUSH TABLES), and a prepared one outlives the
// server.
Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

// The highest hidden id of the rows; 0: there is no row. What is not committed is not seen.
Status last_hidden_id(const Layout &layout, uint64_t *id);

}  // namespace atoll::handler
