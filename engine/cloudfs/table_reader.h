// Reads a table file through the store: local file, then part cache, then bucket.
#pragma once

#include <rocksdb/file_system.h>

#include <array>
#include <cstdint>

#include "base/mutex.h"
#include "base/namespace.h"
#include "bridge/objstore.h"

namespace atoll::cloudfs {

// Threads: any; RocksDB shares one reader among all its threads.
class TableReader : public rocksdb::FSRandomAccessFile {
 public:
  // `number`: the file's, for messages.
  TableReader(atoll_file *file, uint64_t number, uint64_t file_bytes);
  ~TableReader() override;

  // Errors: Corruption also when the read ends with a footer that Atoll cannot have written (table_footer.h),
  // even after the store has read it again from the bucket.
  rocksdb::IOStatus Read(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                         rocksdb::Slice *result, char *scratch,
                         rocksdb::IODebugContext *debug) const override;
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest *requests, size_t count,
                              const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  // Returns NotSupported on purpose: RocksDB then fetches the tail of a table (footer, index, filter) in one
  // read and scans in big reads of its own, each one request, instead of asking block by block.
  rocksdb::IOStatus Prefetch(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                             rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetFileSize(uint64_t *result) noexcept override;

 private:
  void read_ahead(uint64_t offset, size_t length) const;
  rocksdb::IOStatus read(uint64_t offset, size_t length, bool refetch, rocksdb::Slice *result,
                         char *scratch) const;
  // Why `bytes`, read from `offset` on, do not end with a footer; nullptr: they do, or they do not reach the
  // footer.
  const char *problem_of(uint64_t offset, const rocksdb::Slice &bytes) const;

  // Where a few concurrent scans have got to, so that each one's next window is on its way while RocksDB
  // decompresses the current one.
  struct Stream {
    uint64_t next = 0;     // where the scan's next read starts
    uint64_t fetched = 0;  // requested up to here
    uint32_t run = 0;      // sequential reads seen
  };
  static constexpr size_t kStreams = 8;

  atoll_file *const file_;
  const uint64_t number_;
  const uint64_t file_bytes_;
  mutable Mutex streams_mutex_;
  mutable std::array<Stream, kStreams> streams_ ATOLL_GUARDED_BY(streams_mutex_);
  mutable size_t victim_ ATOLL_GUARDED_BY(streams_mutex_) = 0;
};

}  // namespace atoll::cloudfs
