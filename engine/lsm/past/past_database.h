// A past state of a database, open for reading: in the server, beside the live database; in a visitor, which
// is a program that does not own the database; or in a reader, which is a server that does not own it.
//
// A past state is a RocksDB database of its own in a local directory. Its table files are read through a
// mount. In the server it shares the live database's block cache; a block that both databases have is cached
// once.
#pragma once

#include <rocksdb/sst_file_reader.h>

#include <memory>
#include <string>
#include <vector>

#include "bridge/objstore.h"
#include "cloudfs/past_files.h"
#include "lsm/commit_mark.h"
#include "lsm/database.h"

namespace atoll::lsm {

// A table file of a past state. Two states have the same file if number, size and checksum are equal. A file
// that is not in the bucket belongs to one state only.
struct PastFile {
  std::string path;
  std::string smallest_key;
  bool in_bucket = false;  // false: RocksDB wrote it on this machine, and `bytes` and `crc32c` mean nothing
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

// A past state; its families are of Side::kPast. Threads: any. It must outlive all of its readers. The live
// database, or the visitor, must outlive it.
class PastDatabase {
 public:
  // Opens the state that `when` names: a snapshot, a moment or "now". Its local files come into `directory`,
  // which must not exist. RocksDB writes rows that are only in the log to table files there, so that all rows
  // are in table files and ChangedKeys finds them. Of `options`, the caller needs to set only the size of the
  // block cache. Errors, requests: as atoll_visitor_mount(), and kCorruption.
  static Status visit(const atoll_visitor *visitor, const std::string &when, const std::string &directory,
                      const DatabaseOptions &options, std::unique_ptr<PastDatabase> *out);

  virtual ~PastDatabase() = default;  // ends the mount and removes the directory
  PastDatabase(const PastDatabase &) = delete;
  PastDatabase &operator=(const PastDatabase &) = delete;

  virtual Family *catalog_family() = 0;
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family
  // The last GTID of each replication domain among the commits.
  virtual std::vector<Gtid> gtids() const = 0;
  // When the newest commit was made, in microseconds since 1970; 0: there was no commit.
  virtual uint64_t commit_us() const = 0;
  // Returns the table files of a family whose key ranges overlap [begin, end).
  virtual std::vector<PastFile> files(Family *family, std::string_view begin, std::string_view end) = 0;
  // Opens a file that files() has returned for `family`. Errors: kCorruption, kUnavailable.
  virtual Status open_file(Family *family, const PastFile &file,
                           std::unique_ptr<rocksdb::SstFileReader> *out) = 0;

  // Opens the same state once more, so that the rows that are only in the log are in table files too. Its
  // local files come into a directory of its own beside this one's. Requires: this object is of
  // lsm::Database::open_past(), and outlives *out. Errors: kNoSpace, kCorruption, kUnavailable.
  virtual Status open_with_tables(std::unique_ptr<PastDatabase> *out) = 0;
  // For lsm: the directory of the local files, and the file system that reads the table files.
  virtual const std::string &directory() const = 0;
  virtual std::shared_ptr<cloudfs::PastFiles> file_system() const = 0;

 protected:
  PastDatabase() = default;
};

}  // namespace atoll::lsm
