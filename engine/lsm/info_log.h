// RocksDB's own log file (LOG, local only), without the option dumps: with thousands of families they are
// megabytes at each start and say nothing that options.cc does not.
#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

#include "base/namespace.h"

namespace atoll::lsm {

// nullptr when the file cannot be made: RocksDB then tries by itself.
std::shared_ptr<rocksdb::Logger> make_info_log(const std::string &directory);

}  // namespace atoll::lsm
