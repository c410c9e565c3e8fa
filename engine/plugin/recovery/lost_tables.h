// Finds tables that the data directory defines and the database lacks, at the first start of the engine on
// that directory. There are such tables when the directory was copied by a tool that does not know #atoll,
// such as mariadb-backup. The server starts in any case; the log says which tables are missing, and how to
// get them back.
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
// `own_type`: ATOLL's number in .par files.
LostTables find_lost_tables(const catalog::Catalog &catalog, const std::filesystem::path &data_dir,
                            uint8_t own_type);

// Returns the GTID position of the backup from which `data_dir` was made, from the file that mariadb-backup
// has left there; empty: there is no such file, or it has no GTID position.
std::string gtid_of_backup(const std::filesystem::path &data_dir);

// Returns the message for the log about lost tables and the backup; empty: there is nothing to say.
// `came_from_bucket`: the bucket had a database, and the server uses it; otherwise the server made a new
// database.
std::string lost_tables_message(const LostTables &lost, const std::string &backup_gtid,
                                const std::string &url, bool came_from_bucket);

}  // namespace atoll::plugin
