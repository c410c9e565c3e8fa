// Writes zeros after the end of a WAL file in advance. A commit then overwrites zeros and does not change the
// file's size.
//
// When a commit makes the file longer, its sync also writes the file's inode. Reserving space without writing
// (fallocate) does not help, because a sync of bytes in such space also writes the file's extent map. Either
// way each commit of one row costs two more writes to the device. They take a third of the CPU time of such a
// commit where the device is reached through a hypervisor.
//
// After a crash the log ends with zeros. RocksDB's recovery skips them as records without a type. A copy of
// the log has the zeros, too.
//
// Threads: one at a time (WalWriter holds a mutex).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/namespace.h"

namespace atoll::cloudfs {

class LogSpace {
 public:
  explicit LogSpace(std::string path) : path_(std::move(path)) {}
  ~LogSpace();
  LogSpace(const LogSpace &) = delete;
  LogSpace &operator=(const LogSpace &) = delete;

  // Call before `bytes` bytes are appended to a log of `length` bytes. Writes zeros from offset `length` +
  // `bytes` on, if the zeros written earlier end before this offset and if syncs are small enough to gain
  // from zeros. When writing zeros fails, that is no error: each append then makes the file longer.
  void prepare(uint64_t length, size_t bytes);
  // Notes that a sync of the log begins while the log has `length` bytes.
  void synced(uint64_t length);
  // Truncates the file to `length` bytes, which removes the zeros. Call when the log gets no more bytes.
  void cut(uint64_t length);

 private:
  bool open();

  const std::string path_;
  int descriptor_ = -1;      // of the WAL file; -1: not opened yet
  bool failed_ = false;      // true: write no more zeros, because a write has failed or cut() was called
  uint64_t zeros_end_ = 0;   // offset in the file up to which zeros were written; records overwrite them
  uint64_t synced_ = 0;      // length of the log when its last sync began
  uint64_t sync_bytes_ = 0;  // bytes per sync, a moving average
};

}  // namespace atoll::cloudfs
