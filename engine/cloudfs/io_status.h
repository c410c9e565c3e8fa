// How an answer of the store looks to RocksDB. The code decides what RocksDB does next:
//   IOFenced           every background error becomes fatal: the database stops writing
//   NoSpace, retryable background work pauses and resumes by itself
//   Corruption         only for bytes that failed a checksum, never for a network fault
#pragma once

#include <rocksdb/io_status.h>

#include "base/namespace.h"
#include "bridge/objstore.h"

namespace atoll::cloudfs {

rocksdb::IOStatus to_io_status(const atoll_result &result);

// kOk while this process may write to the bucket.
inline rocksdb::IOStatus check_may_write(const atoll_store *store) {
  return to_io_status(atoll_store_may_write(store));
}

}  // namespace atoll::cloudfs
