// RocksDB's own text log (the local file LOG), without the dumps of all options. With thousands of families,
// these dumps take megabytes at each start and say only what options.cc says.
#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

#include "base/namespace.h"

namespace atoll::lsm {

// Returns nullptr when the file cannot be created. RocksDB then tries to create its log file by itself.
std::shared_ptr<rocksdb::Logger> make_info_log(const std::string &directory);

}  // namespace atoll::lsm
