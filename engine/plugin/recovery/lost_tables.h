// Tables that a data directory defines and the database lacks, at the first start with that directory: it is
// a copy made by a tool that does not know #atoll, such as mariadb-backup. The server starts; the log says
// what is missing, and how to get it back.
//
// Threads: only while no statement can reach the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "catalog/catalog.h"

namespace atoll::plugin {

struct LostTables {
  size_t count = 0;     // tables, not partitions
  std::string example;  // "database/name" as in file names; empty: there is none
};

// Finds the definitions of ATOLL tables in `data_dir` that the catalog lacks. Reads all .frm files.
// `own_type`: the engine's number in .par files.
LostTables find_lost_tables(const catalog::Catalog &catalog, const std::filesystem::path &data_dir,
                            uint8_t own_type);

// The GTID position of the backup that `data_dir` was made from, as mariadb-backup noted it there; empty: it
// did not.
std::string gtid_of_backup(const std::filesystem::path &data_dir);

// What the log says of the lost tables and of the backup; empty: nothing. `came_from_bucket`: the bucket had
// a database, which the server has now; otherwise the server made a new one.
std::string lost_tables_message(const LostTables &lost, const std::string &backup_gtid,
                                const std::string &url, bool came_from_bucket);

}  // namespace atoll::plugin
