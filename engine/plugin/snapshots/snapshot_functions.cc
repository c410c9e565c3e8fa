// See snapshot_functions.h.
#include "plugin/snapshots/snapshot_functions.h"

#include <vector>

#include "bridge/callback.h"
#include "bridge/result.h"
#include "engine/running.h"
#include "plugin/snapshots/action_function.h"
#include "plugin/snapshots/moment_text.h"

namespace atoll::plugin {
namespace {

// Returns the newest commit of the snapshot as text: its time in UTC, and its GTID position.
std::string commit_text(const atoll_snapshot &snapshot) {
  if (snapshot.commit_us == 0) return "no commit yet";
  const std::string gtid = snapshot.gtid_position;
  return "last commit " + utc_text(snapshot.commit_us) + (gtid.empty() ? "" : ", GTID position " + gtid);
}

Status run_make_snapshot(const std::vector<std::string> &arguments, std::string *what) {
  return make_snapshot(arguments[0], what);
}

Status run_drop_snapshot(const std::vector<std::string> &arguments, std::string *what) {
  return drop_snapshot(arguments[0], what);
}

}  // namespace

Status make_snapshot(const std::string &name, std::string *what) {
  // The snapshot must contain everything that was committed before. With atoll_durability=local, too, all of
  // that must be in the bucket first.
  ATOLL_RETURN_IF_ERROR(engine::running()->gate().publish_all());
  const auto describe = [what](const atoll_snapshot *made) {
    *what = "snapshot '" + std::string(made->name) + "': " + commit_text(*made) + ", " +
            std::to_string(made->files) + " table files, " + std::to_string(made->shared_bytes) + " bytes";
  };
  bridge::Callback told(describe);
  const Status status = bridge::to_status(atoll_store_create_snapshot(
      engine::running()->store(), name.c_str(), &told, told.function<const atoll_snapshot *>()));
  told.rethrow();
  return status;
}

Status drop_snapshot(const std::string &name, std::string *what) {
  *what = "snapshot '" + name +
          "' is given up; the server deletes what it alone kept at its next search of the bucket: after "
          "an hour at the latest, or a minute more for each 1000 objects";
  return bridge::to_status(atoll_store_drop_snapshot(engine::running()->store(), name.c_str()));
}

Create_func *snapshot_function() {
  static const SqlAction action{
      "atoll_snapshot", 1, 0, ActionPrivilege::kReload, "a snapshot needs a name, not NULL",
      run_make_snapshot};
  return action_function(&action);
}

Create_func *drop_snapshot_function() {
  static const SqlAction action{
      "atoll_drop_snapshot", 1, 0, ActionPrivilege::kBinlogAdmin, "a snapshot needs a name, not NULL",
      run_drop_snapshot};
  return action_function(&action);
}

}  // namespace atoll::plugin
