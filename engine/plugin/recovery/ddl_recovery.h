// What a crash in DDL leaves between the catalog and the files of the data directory, on both sides of the
// server's own recovery.
//
// The server keeps a DDL log and finishes or undoes by it. For partitioned tables it leaves states that it
// cannot read itself: it finds a table's engine by the .frm and its partitions by the .par file, and changes
// those one after the other. tests/crash/test_ddl_walk.py goes through all of them.
//
// Threads: only while no statement can reach the engine.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

// Before the server reads its DDL log: gives it the files it needs. What cannot be written is left as it is.
void prepare_ddl_recovery(const catalog::Catalog &catalog, const std::filesystem::path &data_dir);

struct DataDirectory {
  std::filesystem::path path;
  uint8_t own_type = 0;   // the engine's number in .par files
  bool is_older = false;  // than the catalog, which came from the bucket, say
  // Not empty: the catalog came from the bucket, and may know nothing of tables that this server made, or
  // other definitions of them (another server has written since, or the database was put back to a snapshot).
  // Files that contradict it go here, and the server discovers what the catalog has.
  std::filesystem::path contradicted;
};

// After that, or without one (the machine was lost, or the engine opened late): tables have their names,
// copies that nobody needs are gone, and the entry of a partitioned table that does not agree with its
// partitions follows files that do. Reads no file when nothing was cut off, but lists the directories.
// Errors: those of the catalog's writes; what is not done is done at the next start.
Status finish_ddl_recovery(catalog::Catalog *catalog, const DataDirectory &directory);

}  // namespace atoll::plugin
