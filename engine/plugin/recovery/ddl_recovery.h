// Makes the catalog and the files of the data directory agree after a crash in DDL: one function runs before
// the server's own recovery, the other one after it.
//
// The server finishes or undoes a cut-off statement by its DDL log. For partitioned tables a crash can leave
// states that the server cannot read itself: it finds a table's engine by the .frm and its partitions by the
// .par file, and it changes these two files one after the other. tests/crash/test_ddl_walk.py goes through
// all such states.
//
// Threads: only while no statement can reach the engine.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

// Gives the server the files that it needs when it reads its DDL log; call it before that. A file that cannot
// be written is left as it is.
void prepare_ddl_recovery(const catalog::Catalog &catalog, const std::filesystem::path &data_dir);

struct DataDirectory {
  std::filesystem::path path;
  uint8_t own_type = 0;   // the engine's number in .par files
  bool is_older = false;  // the files are older than the catalog, as when it came from the bucket
  // The directory to which files that contradict the catalog are moved; the server then discovers what the
  // catalog has. Not empty only when the catalog came from the bucket: such a catalog may lack tables that
  // this server made, or hold other definitions of them (another server has written since, or the database
  // was put back to a snapshot).
  std::filesystem::path contradicted;
};

// Repairs what is left when the server has gone through its DDL log, or when there was no such log (the
// machine was lost, or the engine opened late). Afterwards tables have their names, and copies that nobody
// needs are gone. Where the entry of a partitioned table does not agree with the partitions but the table's
// files do, the entry has been replaced by what the files say. Reads no file when nothing was cut off, but
// lists the directories. Errors: those of the catalog's writes; what is not done is done at the next start.
Status finish_ddl_recovery(catalog::Catalog *catalog, const DataDirectory &directory);

}  // namespace atoll::plugin
