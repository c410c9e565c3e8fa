// Catalog::describe(): the upgrade of entries that an earlier version of Atoll has made.
#include "catalog/catalog_impl.h"

namespace atoll::catalog {

Status Catalog::describe(uint32_t table_id, const TableDescription &description, TablePtr *out) {
  if (const Status status = check(description); !status.ok()) return Status(Code::kBug, status.message());
  const MutexLock lock(impl_->change_mutex);
  // Changes the present entry, not the caller's: an ALTER may have noted half-built indexes meanwhile.
  const TablePtr present = impl_->find(table_id);
  if (!present) return Status(Code::kNotFound, "the table is not in the catalog");
  if (!present->description.is_known()) {
    TableDef described = *present;
    described.description = description;
    ATOLL_RETURN_IF_ERROR(impl_->update({described}, {}, false));
  }
  *out = impl_->find(table_id);
  return Status::Ok();
}

}  // namespace atoll::catalog
