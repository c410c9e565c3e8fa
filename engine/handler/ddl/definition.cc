// See definition.h.
#include "handler/server.h"

#include "handler/ddl/definition.h"

#include "engine/running.h"
#include "handler/session/session.h"

namespace atoll::handler {

using engine::Mount;
using engine::View;

Definition find_definition(const TableName &name) {
  engine::Engine *running = engine::running();
  Definition found;
  if (const engine::ViewPtr view = shown_view()) {
    found.table = View::find(view, name.database, name.table);
    if (found.table) found.family = view->find_family(found.table->family_id);
    return found;
  }
  if (const auto mount = running->mounts()->find(name.database)) {
    found.table = Mount::find(mount, name.table);
    if (found.table) found.family = mount->find_family(found.table->family_id);
    return found;
  }
  found.table = running->catalog()->find(name.database, name.table);
  if (found.table) found.family = running->database()->find_family(found.table->family_id);
  return found;
}

engine::ViewPtr shown_view() {
  const engine::Views *views = engine::running()->views();
  if (views == nullptr) return nullptr;
  // A thread without a connection sees the newest view.
  const Session *session = current_thd == nullptr ? nullptr : Session::of(current_thd, false);
  return session != nullptr && session->view() ? session->view() : views->newest();
}

std::vector<catalog::TablePtr> definitions_in(std::string_view database) {
  if (const engine::ViewPtr view = shown_view()) return View::list(view, database);
  if (const auto mount = engine::running()->mounts()->find(database)) return Mount::list(mount);
  return engine::running()->catalog()->list(database);
}

bool is_mounted(std::string_view database) {
  const engine::Engine *running = engine::running();
  return running->views() != nullptr || running->mounts()->find(database) != nullptr;
}

Status refuse_mounted(std::string_view database) {
  return is_mounted(database) ? past_is_read_only() : Status::Ok();
}

bool is_end_of_mounts(const THD *thd) {
  return engine::running()->views() == nullptr && thd->lex->sql_command == SQLCOM_DROP_DB;
}

Status past_is_read_only() {
  if (const engine::Views *views = engine::running()->views()) return views->why_read_only();
  return Status(Code::kReadOnly,
                "the schema is mounted by ATOLL_MOUNT() and shows the past, which cannot be changed; "
                "ATOLL_CLONE_TABLE() or INSERT ... SELECT brings rows back, ATOLL_UNMOUNT() ends it");
}

Status refuse_newer_series(uint32_t server_version, const TableName &name) {
  constexpr uint32_t kSeries = 100;  // versions of one series differ in the last two digits
  if (server_version / kSeries <= MYSQL_VERSION_ID / kSeries) return Status::Ok();
  const std::string newer = std::to_string(server_version / 10000) + "." +
                            std::to_string(server_version / kSeries % kSeries) + "." +
                            std::to_string(server_version % kSeries);
  return Status(Code::kReadOnly, "MariaDB " + newer + " has written the definition of " + name.database +
                                     "/" + name.table + ", and this server is " + MYSQL_SERVER_VERSION +
                                     ": open the database with a server of that series");
}

}  // namespace atoll::handler
