// Zeros written ahead of the end of a log, so that a commit changes the file's bytes and not its size.
//
// A sync of a file that has grown writes its inode as well, and one into space that was only reserved changes
// the map of the file: two more writes to the device for each commit of one row (a third of the CPU of such a
// commit, where a device is reached through a hypervisor). After a crash the log ends with zeros; RocksDB's
// recovery skips them as records without a type, and whatever copies the log copies them too.
//
// Threads: as the log's writer.
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

  // Before `bytes` are appended to a log of `length` bytes: writes zeros behind them, if commits are small
  // enough to gain by it and there are no zeros yet. A failure is no error: the log grows as it would
  // without.
  void prepare(uint64_t length, size_t bytes);
  // Notes that a sync of the log begins, at this length.
  void synced(uint64_t length);
  // Cuts the zeros off. The log gets no more bytes.
  void cut(uint64_t length);

 private:
  bool open();

  const std::string path_;
  int descriptor_ = -1;
  bool failed_ = false;
  uint64_t zeros_end_ = 0;  // zeros, or bytes written over them, up to here
  uint64_t synced_ = 0;
  uint64_t sync_bytes_ = 0;  // of one sync, lately
};

}  // namespace atoll::cloudfs
