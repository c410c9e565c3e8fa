// Finds the keys whose values may differ between two states of a database: the keys in table files that
// belong to only one of the states. A key that is in no such file has the same value in both states.
//
// Entries that a range tombstone hides are not found. Range tombstones delete only dropped indexes and the
// former key ranges of tables that were dropped, truncated or moved. Nobody compares such ranges.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/past/past_database.h"

namespace atoll::lsm {

// One side of the comparison: a past state of the database, and a family in it. Both sides have the same
// family.
struct FamilyThen {
  PastDatabase *state = nullptr;
  Family *family = nullptr;
};

// Threads: one.
class ChangedKeys {
 public:
  // Finds the files with keys in [begin, end). Both states come from PastDatabase::visit() and must outlive
  // this object.
  ChangedKeys(const FamilyThen &first, const FamilyThen &second, const std::string &begin,
              const std::string &end);

  // Returns how many table files belong to only one of the two states.
  size_t file_count() const { return file_count_; }

  // Sets *out to the next key, in ascending order, or to "" after the last key. Errors: kCorruption,
  // kUnavailable.
  Status next(std::string *out);

 private:
  // A table file that is not opened yet, and the side of the comparison that has it.
  struct Unopened {
    FamilyThen side;
    PastFile file;
  };
  struct File {
    std::unique_ptr<rocksdb::SstFileReader> reader;
    std::unique_ptr<rocksdb::Iterator> entries;  // over all versions of keys, also deletions
  };

  // Opens the files that may have the next key: those whose first key is not greater than the first key
  // in queue_.
  Status open_files();
  Status open_file(const Unopened &unopened);
  // Puts the file into queue_ under the key of its current entry. Closes it if it has no more entries below
  // end_.
  Status enqueue(std::unique_ptr<File> file);

  const std::string begin_, end_;
  size_t file_count_ = 0;
  // The files that are not opened yet. They are opened late, because the process cannot have very many files
  // open at once.
  std::vector<Unopened>
      unopened_;  // by first key, descending, so that pop_back() removes the file that is needed next
  std::multimap<std::string, std::unique_ptr<File>> queue_;  // the open files, by their current keys
};

}  // namespace atoll::lsm
