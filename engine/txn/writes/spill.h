// The writes of a transaction that do not fit into memory. They are in sorted files, in a directory of this
// transaction on local disk (docs/internals/huge-transactions.md). A run is the files that were written
// together: one for each family.
//
// Invariants
//   WRITE-4  For each savepoint, the writes of a run are either all older or all newer than the savepoint.
//   WRITE-5  A directory that no prepared transaction names is removed by the destructor or at the next open.
// Tests: spill_test.cc.
//
// Used by one thread at a time, the transaction's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lsm/load/loads.h"
#include "lsm/rows.h"
#include "lsm/load/run_file.h"
#include "txn/writes/write_set.h"

namespace atoll::txn {

// A Bloom filter over the keys, and the unique starts of keys, of one file of a run. It has 10 bits for each
// of them, so about one answer in a hundred is a false "may have".
class KeyFilter {
 public:
  static uint64_t hash(std::string_view key);
  explicit KeyFilter(const std::vector<uint64_t> &hashes);
  bool may_have(std::string_view key) const;  // false: the file certainly does not have `key`

 private:
  std::vector<uint64_t> bits_;
};

// Writes that were made between two savepoints: all of them, or some. Immutable. The destructor removes the
// files, unless keep_files() was called.
class SpilledRun {
 public:
  // The file with the run's writes to one family.
  struct Part {
    lsm::Family *family = nullptr;
    std::string path;
    std::string first_key, last_key;
    uint64_t bytes = 0;  // total length of keys and values
    std::unique_ptr<KeyFilter> filter;
    std::unique_ptr<lsm::RunFile> file;
    std::unique_ptr<lsm::RunFileCursor> finder;  // the cursor that Spill::find() uses
  };
  explicit SpilledRun(uint64_t first_sequence) : first_sequence_(first_sequence) {}
  ~SpilledRun();
  SpilledRun(const SpilledRun &) = delete;
  SpilledRun &operator=(const SpilledRun &) = delete;

  // No write of the run has a lower sequence number.
  uint64_t first_sequence() const { return first_sequence_; }
  // Returns nullptr if the run has no writes to the family.
  const Part *part_of(const lsm::Family *family) const;
  const std::vector<Part> &parts() const { return parts_; }
  std::vector<Part> *parts_to_fill() { return &parts_; }
  void keep_files() { files_stay_ = true; }

 private:
  const uint64_t first_sequence_;
  std::vector<Part> parts_;
  bool files_stay_ = false;
};

using Runs = std::vector<std::shared_ptr<SpilledRun>>;  // the oldest first

// The spilled writes of one transaction, which makes it when its writes exceed the memory for the first
// time.
class Spill {
 public:
  // The first run creates `directory`.
  Spill(lsm::Rows *rows, lsm::RunFiles *run_files, std::string directory);
  ~Spill();

  // Writes all of `set` to disk, one run for each interval between its savepoints that has writes.
  // Errors: kNoSpace, kUnavailable: nothing was added.
  Status add(const WriteSet &set);
  // Drops the runs whose writes have this sequence number or a greater one.
  void drop_from(uint64_t sequence);

  // The current runs. The list that is returned does not change later.
  std::shared_ptr<const Runs> runs() const { return runs_; }
  bool has_runs(lsm::Side side) const;
  bool has_family(const lsm::Family *family) const;

  // Finds the newest version of `key`. Sets *found to false when there is none, *removed to true when it is a
  // removal, and otherwise *value to a copy of the value. Errors: kUnavailable, kCorruption.
  Status find(const lsm::Family *family, std::string_view key, bool *found, bool *removed,
              std::string *value) const;

  // Merges the files of a family, if there are many, into a few; call before a commit. Errors: kNoSpace,
  // kUnavailable, kCorruption.
  Status merge_many();
  // The files of one side (main or temp database), by family. Leaves out families that were dropped.
  std::vector<lsm::FamilyFiles> files(lsm::Side side) const;

  // Writes a list of the files, which load() reads, and makes the list and the names of the files durable.
  Status save_list() const;
  // Reads the list, for a transaction found prepared at open. After load(), the writes can only be read by
  // files() and runs(): the list does not have what other functions need, such as the filters for find().
  // Errors: kCorruption, kUnavailable.
  Status load();
  // True: the destructor leaves the directory as it is, because a prepared transaction names it (WRITE-5).
  void set_keep(bool keep) { keep_ = keep; }

  const std::string &directory() const { return directory_; }
  std::string name() const;  // last component of directory()

 private:
  struct Writing;
  struct File {
    lsm::Family *family;
    std::string path;
  };
  std::vector<File> list(lsm::Side side) const;
  Status write_interval(const WriteSet &set, uint64_t from, uint64_t before, Runs *out);
  Status open_part(SpilledRun::Part *part) const;
  Status merge(lsm::Family *family, uint64_t file_bytes, std::vector<std::string> *paths);

  lsm::Rows *const rows_;
  lsm::RunFiles *const run_files_;
  const std::string directory_;
  std::shared_ptr<const Runs> runs_;
  std::map<lsm::Family *, std::vector<std::string>> merged_;  // merged files, which replace those of the runs
  uint64_t next_file_ = 1;                                    // the number in the name of the next file
  bool keep_ = false;                                         // see set_keep()
};

}  // namespace atoll::txn
