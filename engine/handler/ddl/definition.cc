// See definition.h.
#include "handler/server.h"

#include "handler/ddl/definition.h"

#include "engine/running.h"

namespace atoll::handler {

using engine::Mount;

Definition find_definition(const TableName &name) {
  engine::Engine *running = engine::running();
  Definition found;
  if (const auto mount = running->mounts()->find(name.database)) {
    found.table = Mount::find(mount, name.table);
    if (found.table) found.family = mount->find_family(found.table->family_id);
    return found;
  }
  found.table = running->catalog()->find(name.database, name.table);
  if (found.table) found.family = running->database()->find_family(found.table->family_id);
  return found;
}

std::vector<catalog::TablePtr> definitions_in(std::string_view database) {
  if (const auto mount = engine::running()->mounts()->find(database)) return Mount::list(mount);
  return engine::running()->catalog()->list(database);
}

bool is_mounted(std::string_view database) { return engine::running()->mounts()->find(database) != nullptr; }

Status refuse_mounted(std::string_view database) {
  return is_mounted(database) ? past_is_read_only() : Status::Ok();
}

bool is_end_of_mounts(const THD *thd) { return thd->lex->sql_command == SQLCOM_DROP_DB; }

Status past_is_read_only() {
  return Status(Code::kReadOnly,
                "the schema is mounted by ATOLL_MOUNT() and shows the past, which cannot be changed; "
                "ATOLL_CLONE_TABLE() or INSERT ... SELECT brings rows back, ATOLL_UNMOUNT() ends it");
}

}  // namespace atoll::handler
