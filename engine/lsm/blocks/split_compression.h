// Compression of data blocks in two streams (split_block.h), as a part of RocksDB: which blocks are split,
// and how both streams are stored in one block. Everything else is RocksDB's own compression.
#pragma once

#include <rocksdb/advanced_compression.h>

#include <memory>

#include "base/namespace.h"

namespace atoll::lsm {

// The compression manager of all families and table files of the main and the temp database. It reads what
// RocksDB's own manager wrote and what it wrote itself; the manager's name in a table file's properties says
// which. It splits data blocks that zstd or zlib compresses where that makes them smaller. It tries one block
// in 16 in all three forms and stores the next 15 in the smallest form. So the trials cost a sixteenth of
// compressing whole blocks and of compressing the heads once more. LZ4 has no entropy coder and gains
// nothing. Thread-safe; one for the process.
const std::shared_ptr<rocksdb::CompressionManager> &split_compression_manager();

}  // namespace atoll::lsm
