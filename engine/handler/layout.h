// A table's layout (table/layout.h), made from its definition in the catalog.
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

// Makes the layout for the records of `table`. The columns and keys come from the description in `def`, and
// `table` must have the same. If `def` has no description, because an earlier version of Atoll has made it,
// they come from `table`. Errors: kInvalid if `table` and `def` do not agree; the message names the column or
// key. The definition has changed, so the server must discover the table again.
Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out);

// Makes the layout of a table that need not be open, for records of the form catalog::own_record(). Errors:
// kInvalid: `def` has no description, or a column has a collation that this server lacks; kCorruption.
Status described_layout(catalog::TablePtr def, lsm::Family *family, std::shared_ptr<const Layout> *out);

// As outermost_key(), but also sees keys that open and prepared transactions have written, whose numbers must
// not be given out again. The Share, which counts these numbers, may be destroyed while such a transaction
// goes on (FLUSH TABLES), and a prepared transaction survives a restart of the server.
Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

}  // namespace atoll::handler
