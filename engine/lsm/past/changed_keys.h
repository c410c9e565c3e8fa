// The keys whose values may differ between two states of a database: those in table files that only one of
// the states has. A key that is in none of them has the same value in both.
//
// Entries that a range tombstone hides are not found. Such a tombstone deletes what a table has left: dropped
// indexes, and the former place of a table that was dropped, truncated or moved. Nothing is compared there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/past/past_database.h"

namespace atoll::lsm {

// One side of the comparison. Both sides have the same family, found in their own state.
struct FamilyThen {
  PastDatabase *state = nullptr;
  Family *family = nullptr;
};

// Threads: one.
class ChangedKeys {
 public:
  // Finds the files with keys in [begin, end). Both states are of PastDatabase::visit(), and must live
  // longer. Errors: kCorruption, kUnavailable.
  Status open(const FamilyThen &first, const FamilyThen &second, const std::string &begin,
              const std::string &end);

  // How many files only one of the states has.
  size_t file_count() const { return file_count_; }

  // Moves to the next key, in ascending order. *out is empty behind the last. Errors: as open().
  Status next(std::string *out);

 private:
  struct Unopened {
    FamilyThen side;
    PastFile file;
  };
  struct File {
    std::unique_ptr<rocksdb::SstFileReader> reader;
    std::unique_ptr<rocksdb::Iterator> entries;  // of all versions, deletions too
  };

  // Opens the files whose first key is not behind the next key.
  Status open_files();
  Status open_file(const Unopened &unopened);
  // Puts the file into the queue at its present entry; closes it if that is behind the end.
  Status enqueue(std::unique_ptr<File> file);

  std::string begin_, end_;
  size_t file_count_ = 0;
  std::vector<Unopened>
      unopened_;  // by first key, descending: a table has more files than may be open at once
  std::multimap<std::string, std::unique_ptr<File>> queue_;
};

}  // namespace atoll::lsm
