// The footer of a table file, checked before RocksDB trusts it.
//
// RocksDB reads files of many versions. It believes a footer of an older version, or one that says that the
// file has no checksums, without a checksum: a forged file of 54 bytes makes RocksDB ask for a terabyte of
// memory, which ends the server. Atoll writes one kind of footer (lsm/options.cc), so no other is let
// through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/namespace.h"

namespace atoll::cloudfs {

constexpr size_t kTableFooterBytes = 53;

// Why `footer` cannot be that of a table file of `file_bytes` that Atoll wrote; nullptr: it can, and the
// metaindex block that it names is inside the file. RocksDB checks the footer's checksum. Requires: `footer`
// has kTableFooterBytes.
const char *problem_of_footer(std::string_view footer, uint64_t file_bytes);

}  // namespace atoll::cloudfs
