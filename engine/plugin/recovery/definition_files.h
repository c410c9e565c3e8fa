// Finds the files by which the server defines tables, .frm and .par, and tells which define ATOLL tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalog/partition_list.h"

namespace atoll::plugin {

// Returns the subdirectories of a directory; none when it cannot be read.
std::vector<std::filesystem::path> directories_in(const std::filesystem::path &directory);

// Whether a .frm with the content `frm` defines an ATOLL table. `list`: the partitions in the .par file
// beside it, which decide if there is such a file (nullopt: there is none). `own_type`: ATOLL's number in
// .par files.
bool is_own(const std::string &frm, const std::optional<catalog::PartitionList> &list, uint8_t own_type);

// An ATOLL table, which may be partitioned, as the server's files define it.
struct OwnDefinition {
  std::filesystem::path file;  // the path of the .frm
  std::string database, name;  // as in file names
  std::string frm;
};

// Calls `each` for every definition of an ATOLL table below the data directory. Reads all .frm and .par
// files.
void each_own_definition(const std::filesystem::path &data_dir, uint8_t own_type,
                         const std::function<void(const OwnDefinition &)> &each);

}  // namespace atoll::plugin
