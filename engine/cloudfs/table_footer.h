// Checks the footer of a table file before RocksDB reads it.
//
// RocksDB reads files of many versions. It trusts a footer without a checksum when the footer has an older
// version or says that the file has no checksums. So a forged file of 54 bytes can make RocksDB ask for a
// terabyte of memory, which ends the server. Atoll writes one kind of footer (lsm/options.cc), so it refuses
// all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/namespace.h"

namespace atoll::cloudfs {

constexpr size_t kTableFooterBytes = 53;  // the last bytes of each table file; layout in table_footer.cc

// Returns why `footer` cannot be the footer of a table file of `file_bytes` bytes that Atoll wrote, for
// example because the metaindex block that the footer names does not fit into the file. Returns nullptr if
// `footer` can be such a footer. The footer's checksum is not verified here, because RocksDB verifies it.
// Requires: `footer` is kTableFooterBytes long.
const char *problem_of_footer(std::string_view footer, uint64_t file_bytes);

}  // namespace atoll::cloudfs
