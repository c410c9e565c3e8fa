// The server's files that define tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalog/partition_list.h"

namespace atoll::plugin {

// The files, and the directories, in a directory; empty when it cannot be read.
std::vector<std::filesystem::path> files_in(const std::filesystem::path &directory);
std::vector<std::filesystem::path> directories_in(const std::filesystem::path &directory);

// Whether the contents of a .frm and of the .par beside it define a table of ours. `own_type`: the engine's
// number in .par files.
bool is_own(const std::string &frm, const std::optional<catalog::PartitionList> &list, uint8_t own_type);

// A table or partitioned table of ours, as the server's files define it.
struct OwnDefinition {
  std::filesystem::path file;  // the .frm
  std::string database, name;  // as in file names
  std::string frm;
};

// Calls `each` for every definition of ours below the data directory. Reads all .frm and .par files.
void each_own_definition(const std::filesystem::path &data_dir, uint8_t own_type,
                         const std::function<void(const OwnDefinition &)> &each);

}  // namespace atoll::plugin
