// The .par file of a partitioned table: its partitions and their engines, as the server writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atoll::catalog {

struct PartitionList {
  std::vector<uint8_t> engines;    // of each partition; numbers that hold for this data directory
  std::vector<std::string> names;  // "p0", "p0#SP#p0sp0": what follows "#P#" in the partition's file name

  bool is_all_of(uint8_t engine) const;
  // Whether all partitions are of engines whose numbers are the same everywhere; other engines get numbers in
  // the order in which they are loaded.
  bool is_built_in() const;
};

// nullopt: the content is no such file, or is cut off. Format: sql/ha_partition.cc, create_handler_file().
std::optional<PartitionList> parse_partition_list(std::string_view content);

}  // namespace atoll::catalog
