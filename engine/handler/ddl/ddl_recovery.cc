// What the server asks of the engine while it reads its DDL log after a crash.
#include <memory>

#include "base/file.h"
#include "catalog/partition_list.h"
#include "handler/server/callback.h"
#include "handler/ha_atoll.h"
#include "handler/handlerton.h"

namespace atoll::handler {
namespace {

// Whether the rename of a partition is done. If an earlier attempt has renamed it, the former name does not
// exist; engines report that by one of these two codes.
bool is_done(int error) { return error == 0 || error == HA_ERR_NO_SUCH_TABLE || error == ENOENT; }

}  // namespace

int rename_for_other_engine(THD *thd, const char *from, const char *to) {
  const std::string source(from), target(to);
  const auto list = catalog::parse_partition_list(content_of(source + ".par"));
  if (!list || !list->is_all_of(list->engines[0])) return HA_ERR_NO_SUCH_TABLE;
  handlerton *engine = ha_resolve_by_legacy_type(thd, static_cast<legacy_db_type>(list->engines[0]));
  if (engine == nullptr || engine == own_handlerton()) return HA_ERR_NO_SUCH_TABLE;
  const std::unique_ptr<::handler> file(get_new_handler(nullptr, thd->mem_root, engine));
  if (!file) return HA_ERR_OUT_OF_MEM;
  for (const std::string &name : list->names) {
    const std::string partition = "#P#" + name;
    const int error = file->ha_rename_table((source + partition).c_str(), (target + partition).c_str());
    if (!is_done(error)) return error;
  }
  return ::rename((source + ".par").c_str(), (target + ".par").c_str()) == 0 ? 0 : errno;
}

}  // namespace atoll::handler
