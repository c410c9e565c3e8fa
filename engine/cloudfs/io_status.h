// How an answer of the store looks to RocksDB. The code decides what RocksDB does next:
//   IOFenced           every background error becomes fatal: the database stops writing
//   NoSpace, retryable background work pauses and resumes by itself
//   kMemoryLimit       retryable; a statement is told that memory was short (lsm/from_rocksdb.cc)
//   Corruption         only for bytes that failed a checksum, never for a network fault
#pragma once

#include <rocksdb/io_status.h>

#include <utility>

#include "base/border/border.h"
#include "bridge/objstore.h"

namespace atoll::cloudfs {

rocksdb::IOStatus to_io_status(const atoll_result &result);
rocksdb::IOStatus to_io_status(Code code, const char *message);

// What RocksDB gets instead of an exception. When there is no memory for the text, the result has no text.
rocksdb::IOStatus io_status_of_exception(const Status &status) noexcept;

// The same for a call after which it is not known what is on disk: RocksDB does not resume by itself.
rocksdb::IOStatus final_io_status_of_exception(const Status &status) noexcept;

// Returns call(), or when that throws, io_status_of_exception().
template <typename Call>
inline rocksdb::IOStatus guarded_io(Call &&call) {
  return guarded(std::forward<Call>(call), io_status_of_exception);
}

// kOk while this process may write to the bucket.
inline rocksdb::IOStatus check_may_write(const atoll_store *store) {
  return to_io_status(atoll_store_may_write(store));
}

}  // namespace atoll::cloudfs
