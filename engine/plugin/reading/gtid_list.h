// GTID positions as text: the last GTID of each replication domain, as in '0-1-5120,1-1-9'.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsm/commit_mark.h"

namespace atoll::plugin {

// Returns the position as @@gtid_binlog_pos has it.
std::string gtid_text(const std::vector<lsm::Gtid> &gtids);

// Returns the GTIDs of such a text, with spaces allowed around each. nullopt: it is none, or a number is out
// of range.
std::optional<std::vector<lsm::Gtid>> parse_gtids(std::string_view text);

// Whether a database with the position `have` has the transactions up to `wanted`: for each domain in
// `wanted`, that one or a later one.
bool covers(const std::vector<lsm::Gtid> &have, const std::vector<lsm::Gtid> &wanted);

}  // namespace atoll::plugin
