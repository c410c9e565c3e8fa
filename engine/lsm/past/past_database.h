// A state of the past, open for reading beside the present, or by a visitor: a program that does not own the
// database.
//
// It is a RocksDB database of its own in a local directory, whose table files are read through a mount.
// Beside the present it shares the block cache of that; a block that both databases have is in it once.
#pragma once

#include <rocksdb/sst_file_reader.h>

#include <memory>
#include <string>
#include <vector>

#include "bridge/objstore.h"
#include "lsm/database.h"

namespace atoll::lsm {

// A table file. Two states have the same file if number, size and checksum are equal; a file that is not in
// the bucket is in one state only.
struct PastFile {
  std::string path;
  std::string smallest_key;
  bool in_bucket = false;
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Families are of Side::kPast. Threads: any. Lives as long as anybody reads it; the present, or the visitor,
// must live longer.
class PastDatabase {
 public:
  // Opens the state that `when` names, a snapshot, a moment or "now", in `directory`, which must not exist.
  // Its rows are all in table files: what the log has is written into files in the directory. Of `options` it
  // uses the size of the block cache. Errors, requests: those of atoll_visitor_mount(), and kCorruption.
  static Status visit(const atoll_visitor *visitor, const std::string &when, const std::string &directory,
                      const DatabaseOptions &options, std::unique_ptr<PastDatabase> *out);

  virtual ~PastDatabase() = default;  // ends the mount and removes the directory
  PastDatabase(const PastDatabase &) = delete;
  PastDatabase &operator=(const PastDatabase &) = delete;

  virtual Family *catalog_family() = 0;
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family
  // When the newest commit was made, in microseconds since 1970; 0: there was no commit.
  virtual uint64_t commit_us() const = 0;
  // The table files of a family that may have keys from `begin` to `end`, which is not one of them.
  virtual std::vector<PastFile> files(Family *family, std::string_view begin, std::string_view end) = 0;
  // Opens one of files(family). Errors: kCorruption, kUnavailable.
  virtual Status open_file(Family *family, const PastFile &file,
                           std::unique_ptr<rocksdb::SstFileReader> *out) = 0;

 protected:
  PastDatabase() = default;
};

}  // namespace atoll::lsm
