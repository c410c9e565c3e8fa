// See temporary_rows.h.
#include "handler/session/temporary_rows.h"

#include "catalog/record.h"
#include "engine/running.h"

namespace atoll::handler {

Status remove_temporary_rows(const catalog::TableDef &def) {
  lsm::Database *const database = engine::running()->database();
  const catalog::Doomed::Range rows = catalog::table_range(def);
  return database->delete_range(database->temp_family(), rows.begin, rows.end);
}

}  // namespace atoll::handler
