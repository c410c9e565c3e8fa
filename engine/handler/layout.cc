// See layout.h.
#include "handler/server.h"

#include "handler/layout.h"

#include "engine/running.h"
#include "handler/server/description.h"

namespace atoll::handler {

Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key) {
  lsm::Family *family = layout.family();
  std::string uncommitted;  // read first: a key that commits in between is seen twice, not missed
  if (family->side() == lsm::Side::kMain)
    uncommitted =
        engine::running()->transactions()->outermost_uncommitted(family, index.start, index.end, last);
  ATOLL_RETURN_IF_ERROR(outermost_key(layout, index, last, key));
  if (key->empty() || (!uncommitted.empty() && (last ? *key < uncommitted : uncommitted < *key)))
    *key = std::move(uncommitted);
  return Status::Ok();
}

Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out) {
  const catalog::TableDescription opened = describe(table);
  const catalog::TableDescription &stored = def->description;
  if (stored.is_known()) {
    const std::string what = catalog::difference(stored, opened);
    if (!what.empty()) return Status(Code::kInvalid, what);
  }
  return table::build_layout(def, stored.is_known() ? stored : opened, record_form_of(table->s),
                             server_collations(), family, out);
}

Status described_layout(catalog::TablePtr def, lsm::Family *family, std::shared_ptr<const Layout> *out) {
  const catalog::TableDescription &description = def->description;
  if (!description.is_known())
    return Status(Code::kInvalid,
                  "an earlier version of Atoll has made the table, and it has not been opened since");
  return table::build_layout(def, description, catalog::own_record(description), server_collations(), family,
                             out);
}

}  // namespace atoll::handler
