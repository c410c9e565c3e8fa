// Declares to the server the plugins that this library contains.
#include "handler/server.h"

#include <item_create.h>
#include <mysql/plugin.h>
#include <mysql/plugin_function.h>

#include "plugin/show/info_schema.h"
#include "plugin/tables/hand_over.h"
#include "plugin/plugin.h"
#include "plugin/reading/wait_function.h"
#include "plugin/tables/clone_functions.h"
#include "plugin/snapshots/mount_functions.h"
#include "plugin/snapshots/snapshot_functions.h"
#include "plugin/show/status.h"
#include "plugin/sysvars.h"

namespace {

namespace ours = atoll::plugin;

constexpr char kAuthor[] = "Atoll contributors";
constexpr unsigned int kVersion = 0x0001;
// With the default of plugin_maturity, the server loads plugins of maturity Gamma. README says what that
// means for version 0.1.
constexpr unsigned int kMaturity = MariaDB_PLUGIN_MATURITY_GAMMA;
// The server warns at each start of every plugin that is not stable. One warning says it for the whole
// library.
constexpr unsigned int kMaturityOfOthers = MariaDB_PLUGIN_MATURITY_STABLE;

st_mysql_storage_engine engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};
st_mysql_information_schema view = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

Plugin_function snapshot_function(ours::snapshot_function());
Plugin_function drop_snapshot_function(ours::drop_snapshot_function());
Plugin_function clone_table_function(ours::clone_table_function());
Plugin_function hand_over_function(ours::hand_over_function());
Plugin_function take_function(ours::take_function());
Plugin_function take_back_function(ours::take_back_function());
Plugin_function clone_database_function(ours::clone_database_function());
Plugin_function mount_function(ours::mount_function());
Plugin_function unmount_function(ours::unmount_function());
Plugin_function wait_function(ours::wait_function());

// A view holds no resources, so there is nothing to release when the server unloads it.
int deinit_view(void *) { return 0; }

constexpr st_maria_plugin view_plugin(const char *name, const char *description, int (*init)(void *)) {
  return {MYSQL_INFORMATION_SCHEMA_PLUGIN,
          &view,
          name,
          kAuthor,
          description,
          PLUGIN_LICENSE_GPL,
          init,
          deinit_view,
          kVersion,
          nullptr,
          nullptr,
          ours::kVersionText,
          kMaturityOfOthers};
}

constexpr st_maria_plugin function_plugin(Plugin_function *function, const char *name,
                                          const char *description) {
  return {MariaDB_FUNCTION_PLUGIN,
          function,
          name,
          kAuthor,
          description,
          PLUGIN_LICENSE_GPL,
          nullptr,
          nullptr,
          kVersion,
          nullptr,
          nullptr,
          ours::kVersionText,
          kMaturityOfOthers};
}

}  // namespace

// The server's macro needs the list of plugins in this form.
// clang-format off
maria_declare_plugin(atoll)
{
  MYSQL_STORAGE_ENGINE_PLUGIN, &engine, "ATOLL", kAuthor,
  "Transactional tables in an object store", PLUGIN_LICENSE_GPL,
  ours::init_engine, ours::deinit_engine, kVersion,
  ours::status_variables(), ours::system_variables(), ours::kVersionText, kMaturity
},
view_plugin("ATOLL_TABLES", "Tables of the ATOLL engine: where they are stored, how large", ours::init_tables_view),
view_plugin("ATOLL_INDEXES", "Indexes of ATOLL tables and their sizes", ours::init_indexes_view),
view_plugin("ATOLL_TRX", "Running and prepared transactions of the ATOLL engine", ours::init_transactions_view),
view_plugin("ATOLL_LOCKS", "Row locks of ATOLL tables, held and waited for", ours::init_locks_view),
view_plugin("ATOLL_FILES", "Table files of the ATOLL engine, each an object in the bucket", ours::init_files_view),
view_plugin("ATOLL_COMPACTIONS", "Compactions of the ATOLL engine's table files, running and recent", ours::init_compactions_view),
view_plugin("ATOLL_SNAPSHOTS", "Snapshots of the ATOLL tables, and what clones hold", ours::init_snapshots_view),
view_plugin("ATOLL_READERS", "States of the ATOLL tables that other servers read", ours::init_readers_view),
function_plugin(&snapshot_function, "atoll_snapshot", "ATOLL_SNAPSHOT(name): keeps the ATOLL tables as they are now"),
function_plugin(&drop_snapshot_function, "atoll_drop_snapshot", "ATOLL_DROP_SNAPSHOT(name): gives a snapshot up"),
function_plugin(&mount_function, "atoll_mount", "ATOLL_MOUNT(schema, as, when): shows a schema as it was, to read"),
function_plugin(&unmount_function, "atoll_unmount", "ATOLL_UNMOUNT(schema): ends what ATOLL_MOUNT() began"),
function_plugin(&wait_function, "atoll_wait", "ATOLL_WAIT(position, seconds): waits until the tables have all transactions up to a GTID position"),
function_plugin(&clone_table_function, "atoll_clone_table", "ATOLL_CLONE_TABLE(table, new table): a table with the same rows, without copying them"),
function_plugin(&clone_database_function, "atoll_clone_database", "ATOLL_CLONE_DATABASE(schema, other schema): clones of all its ATOLL tables"),
function_plugin(&hand_over_function, "atoll_hand_over", "ATOLL_HAND_OVER(table): offers a table to another server, without copying it; returns an id"),
function_plugin(&take_function, "atoll_take", "ATOLL_TAKE(url, id, table): takes a table that another server has handed over"),
function_plugin(&take_back_function, "atoll_take_back", "ATOLL_TAKE_BACK(id): ends a hand-over whose table nobody has taken")
maria_declare_plugin_end;
// clang-format on
