// Run files: sorted files of transactions that are larger than memory. Each file has changes of one
// transaction to one family, also removals (docs/internals/huge-transactions.md). Run files have the format
// of table files, so that a commit can ingest them as they are.
#pragma once

#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/rows.h"

namespace rocksdb {
class DB;
class Iterator;
class SstFileReader;
class SstFileWriter;
}  // namespace rocksdb

namespace atoll::lsm {

// Writes one run file, in the order of its keys. The file is complete only after finish().
class RunFileWriter {
 public:
  RunFileWriter(const rocksdb::Options &options, std::string path);
  ~RunFileWriter();
  // Adds a change. `removed`: the transaction has removed the key; otherwise it has set the key to `value`.
  // Requires: `key` is greater than all keys added before. Errors: kNoSpace, kUnavailable.
  Status add(std::string_view key, std::string_view value, bool removed);
  // Completes and syncs the file. Requires: at least one key.
  Status finish();

 private:
  std::unique_ptr<rocksdb::SstFileWriter> file_;
  const std::string path_;
  bool opened_ = false;  // true: the file exists; the first add() makes it
};

// A cursor over the entries of a run file. A key and a value are valid until the cursor moves. An error of
// reading makes the cursor invalid, and status() returns the error.
class RunFileCursor {
 public:
  explicit RunFileCursor(std::unique_ptr<rocksdb::Iterator> iterator);
  ~RunFileCursor();

  bool valid() const { return valid_; }
  std::string_view key() const { return key_; }
  std::string_view value() const;
  bool removed() const { return removed_; }  // true: the entry is a removal of the key
  // Why the cursor is not valid: Ok means that there is no further entry. Errors: kCorruption, kUnavailable.
  Status status() const;
  void seek(std::string_view key);         // the first >= key
  void seek_last(std::string_view key);    // the last <= key
  void seek_before(std::string_view key);  // the last < key
  void to_first();
  void to_last();
  void next();
  void prev();

 private:
  void parse();

  std::unique_ptr<rocksdb::Iterator> iterator_;
  std::string target_;    // the key of a search in RocksDB's form
  std::string_view key_;  // the current key without RocksDB's own part (sequence number and type)
  bool valid_ = false;
  bool removed_ = false;
};

// A finished run file that is open for reading. It must outlive its cursors.
class RunFile {
 public:
  // Errors: kCorruption, kUnavailable.
  static Status open(const rocksdb::Options &options, const std::string &path, std::unique_ptr<RunFile> *out);
  ~RunFile();
  // The cursor must not outlive this object.
  std::unique_ptr<RunFileCursor> cursor() const;

 private:
  explicit RunFile(const rocksdb::Options &options);
  std::unique_ptr<rocksdb::SstFileReader> reader_;
};

// The run files of one family, the oldest first. If several files have an entry for a key, the entry of the
// newest file is the valid one.
struct FamilyFiles {
  rocksdb::ColumnFamilyHandle *family = nullptr;
  std::vector<std::string> paths;
};

// Ingests all files into one database (main or temp) in one step, which is atomic and durable.
// Ingestion::prepare() does the slow part of the work, but changes nothing that is visible; commit() makes
// all rows visible. The files stay where they are; the database gets links to them.
class Ingestion {
 public:
  Ingestion();
  ~Ingestion();  // without commit(), nothing of the ingestion remains
  // `may_copy`: RocksDB is allowed to copy a file that it cannot link. Errors: as commit(), and
  // kCorruption.
  Status prepare(Rows *rows, Side side, const std::vector<FamilyFiles> &files, bool may_copy);
  // Errors: kNoSpace, kUnavailable, kFenced. After an error, no file has been ingested.
  Status commit();

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace atoll::lsm
