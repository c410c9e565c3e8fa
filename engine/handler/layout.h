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
using table::outermost_key;

// `table` gives the indexes as an engine sees them (long unique keys by their hash column).
// Errors: kInvalid when table and definition do not agree (the definition changed: rediscover).
Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out);

// As outermost_key(), but also sees what open and prepared transactions have written: the share that counts
// numbers may be gone while such a transaction goes on (FLUSH TABLES), and a prepared one outlives the
// server.
Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

}  // namespace atoll::handler
