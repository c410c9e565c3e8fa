// What an ALTER builds from a table's rows while others write them (LOCK=NONE): indexes, or the whole table
// under another primary key or none.
//
// The rows as they were when the build began are scanned, sorted and ingested by IndexBuild. What changed
// since stands in a log and is replayed on top:
//
//   writer   ── its transaction ──▶ rows, finished indexes (main)
//                              └──▶ rows before and after (temp: the log)
//   ALTER    scan at snapshot ─▶ ingest ─▶ replay … replay ─▶ exclusive lock ─▶ last replay ─▶ catalog
//
// The log is in the temp database: its records commit and roll back with the transaction that wrote them, and
// after a crash neither the log nor what was built is there. Writers never touch what is being built, so
// an entry that a transaction removed cannot come back with the ingestion. Nor do they know its definition,
// or compute virtual columns for it: the ALTER makes the entries from the rows, as it does in its scan.
//
// Order: log records are numbered when they are written. Two changes of one row are ordered by its lock,
// which the first holds until it has committed, so numbers of one row grow in commit order.
// Uniqueness is checked at the end: an entry that is put beside another of the same value is suspect, and
// suspects are looked at again when nothing can change any more.
//
// Threads: any thread may call log(), spoil(), close() and the destructor; all else only the ALTER's thread,
// while what its view stands for is there.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/write_batch.h>

#include "lsm/rows.h"
#include "table/build/index_build.h"
#include "table/layout.h"
#include "table/write/row_writer.h"
#include "txn/transaction.h"

namespace atoll::table {

class OnlineBuild : public ChangeLog {
 public:
  // `layout`: that of the altered table. `indexes`: the numbers of those being built in it.
  struct Plan {
    std::shared_ptr<const Layout> layout;
    std::vector<size_t> indexes;
  };
  // What is pointed to lives longer than the build and the transactions that write to its log.
  struct Resources {
    lsm::Rows *rows = nullptr;
    lsm::Families *families = nullptr;
    uint32_t log_prefix = 0;  // of keys in the temp family; nobody else has it
    // Asked before each write to main. Errors: kInterrupted, and what else is to end the build.
    std::function<Status()> before_write;
  };

  ~OnlineBuild() override;
  OnlineBuild(const OnlineBuild &) = delete;
  OnlineBuild &operator=(const OnlineBuild &) = delete;

  Status log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;

  // Makes the ALTER fail: a transaction and its log records may not have ended in the same way (both
  // committed or both rolled back), so what is built would be wrong.
  void spoil(const char *reason) { spoiled_.store(reason, std::memory_order_release); }

  // Moves what has been committed to the log into what is built. *records: how many there were. Errors:
  // kInterrupted (the view says that the build is unwanted), kCorruption, and of writing.
  Status replay(uint64_t *records);

  // The last replay. Requires: no transaction with log records runs. Errors: as replay(), kInvalid (spoiled),
  // kDuplicate (duplicate_index() says of which index).
  Status finish();
  size_t duplicate_index() const { return duplicate_index_; }
  // After kDuplicate: puts one of the two rows that clash into the view's record, for the message. If it
  // cannot be read, some columns are missing. This object keeps the row's text.
  virtual void show_duplicate();
  bool needs_whole_rows() const override { return false; }

  // Makes log() do nothing from now on.
  void close() { closed_.store(true, std::memory_order_release); }

 protected:
  // One record of the log. The derived class defines what key and value mean.
  struct Change {
    bool put = false;
    std::string key = {}, value = {};
  };

  // From now on log() must be called for every change. `view`: of the altered table.
  OnlineBuild(Plan plan, Resources resources, BuildView *view);

  virtual Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) = 0;
  // Changes in the order of the log. Some may come twice.
  virtual Status apply(const std::vector<Change> &changes) = 0;

  Status append(txn::Transaction *transaction, const Change &change);
  // Adds to `batch` what puts or removes the entries of a row in the indexes, but for the primary one.
  // `codec` can read the row; `primary_key` is that in the altered table. Errors: kCorruption, kInvalid (of
  // BuildView::compute).
  Status change_entries(const codec::RowCodec &codec, std::string_view row, std::string_view primary_key,
                        bool put, rocksdb::WriteBatch *batch);
  // Writes what change_entries() has put together.
  Status write_entries(rocksdb::WriteBatch *batch);
  // Is there at most one entry that begins with `start`? *first: its key.
  Status is_unique(std::string_view start, bool *unique, std::string *first) const;
  // Notes `start` as suspect if two entries of the unique index begin with it by now.
  Status suspect_if_double(size_t index, const std::string &start);
  Status write(rocksdb::WriteBatch *batch) const;  // to main

  const std::shared_ptr<const Layout> layout_;
  const std::vector<size_t> indexes_;
  BuildView &view_;
  std::string duplicate_key_;  // the first of the entries that clash
  std::string shown_row_;

 private:
  Status apply_and_forget(std::vector<Change> *changes, std::vector<std::string> *log_keys);

  const Resources resources_;
  std::string log_start_, log_end_;  // all log keys are between
  std::atomic<uint64_t> next_number_{0};
  std::atomic<bool> closed_{false};
  std::atomic<const char *> spoiled_{nullptr};
  std::string entry_key_, entry_value_;
  std::vector<std::pair<size_t, std::string>> unique_starts_;  // of entries not yet written: index, start
  std::set<std::pair<size_t, std::string>> suspects_;          // index, start of the entries
  size_t duplicate_index_ = 0;
};

}  // namespace atoll::table
