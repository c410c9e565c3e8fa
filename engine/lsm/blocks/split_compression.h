// A compression manager for RocksDB that compresses data blocks in two streams (split_block.h). It decides
// which blocks are split, and how both streams are stored in one block. RocksDB's own compression does
// everything else.
#pragma once

#include <rocksdb/advanced_compression.h>

#include <memory>

#include "base/namespace.h"

namespace atoll::lsm {

// The compression manager of all families and table files of the main and the temp database. It reads files
// that RocksDB's own manager wrote and files that it wrote itself; the manager's name in a table file's
// properties tells them apart. It splits data blocks that are compressed by zstd or zlib, where splitting
// makes them smaller. It compresses one block in 16 in all three forms (not split, split, split with heads as
// differences), and stores the next 15 blocks in the form that was smallest. Such a trial compresses the
// whole block and its heads once more, so over 16 blocks the trials add a sixteenth of that work. LZ4 blocks
// are not split: LZ4 has no entropy coder, so splitting gains nothing. Thread-safe; one for the process.
const std::shared_ptr<rocksdb::CompressionManager> &split_compression_manager();

}  // namespace atoll::lsm
