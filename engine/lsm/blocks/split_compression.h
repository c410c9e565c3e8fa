// Compression of data blocks in two streams (split_block.h), as a part of RocksDB: which blocks are split,
// and how both streams stand in one. Everything else is RocksDB's own compression.
#pragma once

#include <rocksdb/advanced_compression.h>

#include <memory>

#include "base/namespace.h"

namespace atoll::lsm {

// For families and table files of the main and the temp database. It reads what RocksDB's own manager wrote
// and what it wrote itself; the name in a table file's properties says which. Data blocks compressed by zstd
// or zlib are split where that makes them smaller: one block in 16 is tried in all three forms and the next
// 15 follow it, so that it costs a sixteenth of the compression and that of the heads once more. LZ4 has no
// entropy coder and gains nothing. Thread-safe; one for the process.
const std::shared_ptr<rocksdb::CompressionManager> &split_compression_manager();

}  // namespace atoll::lsm
