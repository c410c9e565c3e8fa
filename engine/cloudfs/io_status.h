// Converts a result of the store to RocksDB's IOStatus, which decides what RocksDB does next:
//   IOFenced           every background error becomes fatal: the database stops writing
//   NoSpace, retryable background work pauses and resumes by itself
//   kMemoryLimit       retryable; a statement reports that memory is short (lsm/from_rocksdb.cc)
//   Corruption         only for bytes that failed a checksum, never for a network fault
//   kPathNotFound      retryable: an object is missing or too short, and all works again when it is put back
#pragma once

#include <rocksdb/io_status.h>

#include <utility>

#include "base/border/border.h"
#include "bridge/objstore.h"

namespace atoll::cloudfs {

rocksdb::IOStatus to_io_status(const atoll_result &result);
rocksdb::IOStatus to_io_status(Code code, const char *message);

// Returns the message about a lost object (base/messages/lost_object.h) if `status` was made of it, else
// nullptr. The text is a part of `status`.
const char *lost_object(const rocksdb::Status &status);

// Converts an exception, given as `status`, to the IOStatus that RocksDB gets in its place. When there is no
// memory for the message, the result is kMemoryLimit without a message.
rocksdb::IOStatus io_status_of_exception(const Status &status) noexcept;

// The same for an exception in a sync. Nobody knows then which bytes are on disk, so the result is not
// retryable, and RocksDB does not resume by itself.
rocksdb::IOStatus final_io_status_of_exception(const Status &status) noexcept;

// Returns the result of call(). When call() throws, returns io_status_of_exception().
template <typename Call>
inline rocksdb::IOStatus guarded_io(Call &&call) {
  return guarded(std::forward<Call>(call), io_status_of_exception);
}

// OK while this process is the owner, so that it is allowed to write to the bucket. Otherwise IOFenced.
inline rocksdb::IOStatus check_may_write(const atoll_store *store) {
  return to_io_status(atoll_store_may_write(store));
}

}  // namespace atoll::cloudfs
