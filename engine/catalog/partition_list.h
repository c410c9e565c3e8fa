// Reads the .par file that the server writes for a partitioned table: its partitions and their engines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atoll::catalog {

struct PartitionList {
  std::vector<uint8_t> engines;    // for each partition: the number that its engine has in this server
  std::vector<std::string> names;  // "p0", "p0#SP#p0sp0": the part of the partition's file name after "#P#"

  bool is_all_of(uint8_t engine) const;
  // Whether all partitions are of built-in engines, which have the same number in every server. Engines that
  // are loaded as plugins get their numbers in the order of loading, so a number of theirs says nothing in
  // another server.
  bool is_built_in() const;
};

// nullopt: `content` is no .par file, or is cut off. Format: MariaDB's sql/ha_partition.cc,
// create_handler_file().
std::optional<PartitionList> parse_partition_list(std::string_view content);

}  // namespace atoll::catalog
