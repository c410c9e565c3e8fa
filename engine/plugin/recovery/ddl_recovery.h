// Makes the catalog and the files of the data directory agree after a crash in DDL. prepare_ddl_recovery()
// runs before the server's own recovery, finish_ddl_recovery() after it.
//
// The server finishes or undoes a cut-off statement by its DDL log. For partitioned tables, a crash can leave
// states from which the server cannot recover: the .frm tells it the engine of a table and the .par file the
// partitions, but it changes these two files one after the other. tests/crash/test_ddl_walk.py goes through
// all such states.
//
// Threads: only while no statement can reach the engine.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

// Restores the files that the server needs for recovery from its DDL log, and must be called before that. A
// file that cannot be written stays as it is. Sets Catalog::holds_drops, which the caller clears after that
// recovery, before finish_ddl_recovery().
void prepare_ddl_recovery(catalog::Catalog *catalog, const std::filesystem::path &data_dir);

// Whether the local database was made from the bucket, and no start since then has come to the end of
// finish_ddl_recovery(): then the server's DDL log does not belong to it. `base_dir`: the directory #atoll.
// The mark is a file there. A mark that cannot be written is logged.
bool has_restore_mark(const std::filesystem::path &base_dir);
void set_restore_mark(const std::filesystem::path &base_dir);
void clear_restore_mark(const std::filesystem::path &base_dir);

struct DataDirectory {
  std::filesystem::path path;
  uint8_t own_type = 0;   // ATOLL's number in .par files, which name the engine of each partition by a number
  bool is_older = false;  // true: the files are older than the catalog, for example after a restore
  // The directory to which files that contradict the catalog are moved; the server then discovers the tables
  // that the catalog has. Set only when the catalog came from the bucket: such a catalog may lack tables that
  // this server made, or have other definitions of them (another server has written since, or the database
  // was put back to a snapshot).
  std::filesystem::path contradicted;
};

// Repairs what the server's recovery has left. Called when the server has finished recovery from its DDL log,
// or when it had no such log (the machine was lost, or the engine opened late). Afterwards tables have their
// names, and copies that nobody needs are gone. If the entry of a partitioned table did not agree with its
// partitions, but its files did, the entry now says what the files say. Lists the directories; reads no file
// when no statement was cut off. Errors: as the catalog's writes; the next start does what failed.
Status finish_ddl_recovery(catalog::Catalog *catalog, const DataDirectory &directory);

}  // namespace atoll::plugin
