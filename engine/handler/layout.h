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

// `table`: has the indexes as an engine sees them; a UNIQUE key of unlimited length is an index on its hash
// column.
// Errors: kInvalid if `table` and `def` do not agree, because the definition has changed. The server must
// discover the table again.
Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out);

// As outermost_key(), but also sees keys that open and prepared transactions have written, whose numbers must
// not be given out again. The Share, which counts these numbers, may be destroyed while such a transaction
// goes on (FLUSH TABLES), and a prepared transaction survives a restart of the server.
Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

}  // namespace atoll::handler
