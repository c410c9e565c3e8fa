// See prepared_writers.h.
#include "handler/server.h"

#include "handler/ddl/prepared_writers.h"

#include "catalog/record.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/session/transactions.h"

namespace atoll::handler {
namespace {

std::string prepared_writer_of(const catalog::TableDef &def) {
  engine::Engine *running = engine::running();
  lsm::Family *family = def.logical_only ? nullptr : running->database()->find_family(def.family_id);
  if (family == nullptr) return {};
  const catalog::Doomed::Range rows = catalog::table_range(def);
  return running->transactions()->prepared_writer(family, rows.begin, rows.end);
}

}  // namespace

// For a partition, looks at all partitions of its table, so that a DDL statement is refused before it changes
// the first of them.
bool refuse_for_prepared_writers(const catalog::TableDef &def) {
  const std::string table(whole_table(def.name));
  std::string xid = prepared_writer_of(def);
  if (is_partition(def.name))
    for (const catalog::TablePtr &other : engine::running()->catalog()->list(def.database))
      if (xid.empty() && other->name.starts_with(table + "#P#")) xid = prepared_writer_of(*other);
  if (xid.empty()) return false;
  my_printf_error(
      ER_LOCK_WAIT_TIMEOUT,
      "ATOLL: the prepared XA transaction %s has changed table %s.%s; finish it first: XA COMMIT or "
      "XA ROLLBACK",
      MYF(0), xid_text(xid).c_str(), sql_name(def.database).c_str(), sql_name(table).c_str());
  return true;
}

}  // namespace atoll::handler
