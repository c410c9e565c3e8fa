// Reads a table file through the store, which takes the bytes from the local file, the part cache or the
// bucket, in this order.
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
  // `number`: the file's number, for error messages.
  TableReader(atoll_file *file, uint64_t number, uint64_t file_bytes);
  ~TableReader() override;

  // Errors: Corruption also when the bytes read end with a footer that Atoll cannot have written
  // (table_footer.h), even after the store has fetched them from the bucket again.
  rocksdb::IOStatus Read(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                         rocksdb::Slice *result, char *scratch,
                         rocksdb::IODebugContext *debug) const override;
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest *requests, size_t count,
                              const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  // Returns NotSupported on purpose. RocksDB then fetches the tail of a table (footer, index, filter) in one
  // read, and scans with large reads of its own. Each of these reads is one request to the bucket; with
  // Prefetch, RocksDB would ask block by block.
  rocksdb::IOStatus Prefetch(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                             rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetFileSize(uint64_t *result) noexcept override;

 private:
  void read_ahead(uint64_t offset, size_t length) const;
  rocksdb::IOStatus read(uint64_t offset, size_t length, bool refetch, rocksdb::Slice *result,
                         char *scratch) const;
  // Returns what is wrong with the footer at the end of `bytes`, which were read from `offset` on. Returns
  // nullptr if the footer is right, or if `bytes` do not contain the file's footer.
  const char *problem_of(uint64_t offset, const rocksdb::Slice &bytes) const;

  // The position of one scan. The reader remembers a few concurrent scans, so that the store fetches each
  // scan's next window while RocksDB decompresses the current one.
  struct Stream {
    uint64_t next = 0;     // where the scan's next read starts
    uint64_t fetched = 0;  // offset up to which the store was asked to prefetch
    uint32_t run = 0;      // number of sequential reads so far; 0: this Stream is unused
  };
  static constexpr size_t kStreams = 8;  // how many scans of this file the reader remembers

  atoll_file *const file_;
  const uint64_t number_;
  const uint64_t file_bytes_;
  mutable Mutex streams_mutex_;
  mutable std::array<Stream, kStreams> streams_ ATOLL_GUARDED_BY(streams_mutex_);
  // victim_ % kStreams is the element of streams_ that the next new scan replaces.
  mutable size_t victim_ ATOLL_GUARDED_BY(streams_mutex_) = 0;
};

}  // namespace atoll::cloudfs
