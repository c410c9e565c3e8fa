// Builds indexes for an ALTER, or the whole table anew, while other sessions write to the table (LOCK=NONE).
//
// IndexBuild scans, sorts and ingests the rows as they were when the build began. Later changes of rows are
// written to a log, and the ALTER replays this log after the ingestion:
//
//   writer   ── its transaction ──▶ rows, finished indexes (main)
//                              └──▶ rows before and after (temp: the log)
//   ALTER    scan at snapshot ─▶ ingest ─▶ replay … replay ─▶ exclusive lock ─▶ last replay ─▶ catalog
//
// The log is in the temp database. Its records commit and roll back with the transaction that wrote them, and
// a crash removes both the log and the unfinished build. Writers never write to the new indexes, so an entry
// that a transaction removed cannot come back with the ingestion. Writers do not know the new definition and
// compute no virtual columns for it. Only the ALTER makes entries from rows, in its scan and in its replays.
//
// Order: log records are numbered when they are written. A transaction holds the lock of a row that it has
// changed until it has committed, so the numbers of the changes of one row grow in commit order.
// Uniqueness is checked at the end. When a replay puts an entry beside another entry of the same value, this
// value becomes a suspect. finish() searches the entries of all suspects again, when no other session can
// write any more.
//
// Threads: any thread may call log(), spoil(), close() and the destructor. Only the ALTER's thread calls the
// other functions, and only as long as the server's TABLE that its view uses exists.
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
  // `layout`: of the altered table. `indexes`: the indexes that are built, by number in `layout`.
  struct Plan {
    std::shared_ptr<const Layout> layout;
    std::vector<size_t> indexes;
  };
  // The objects pointed to must outlive the build and the transactions that write to its log.
  struct Resources {
    lsm::Rows *rows = nullptr;
    lsm::Families *families = nullptr;
    uint32_t log_prefix = 0;  // begins the keys of the log in the temp family; no table's keys begin with it
    // The build calls it before each write to the main database; it can wait until the write is allowed.
    // Errors: kInterrupted, and others that must end the build.
    std::function<Status()> before_write;
  };

  ~OnlineBuild() override;
  OnlineBuild(const OnlineBuild &) = delete;
  OnlineBuild &operator=(const OnlineBuild &) = delete;

  Status log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;

  // Makes the ALTER fail. Called when it is possible that a transaction has committed without its log
  // records, or the records without the transaction, because then the new indexes or the new table would be
  // wrong.
  void spoil(const char *reason) { spoiled_.store(reason, std::memory_order_release); }

  // Applies the committed log records to the new indexes or the new table, and removes them from the log.
  // *records: the number of these records. Errors: kInterrupted (the view says that the build is unwanted),
  // kCorruption, and of writing.
  Status replay(uint64_t *records);

  // Makes the last replay and checks the suspects. Requires: no transaction with log records runs. Errors: as
  // replay(), kInvalid (spoiled), kDuplicate (duplicate_index() says in which index).
  Status finish();
  size_t duplicate_index() const { return duplicate_index_; }
  // After kDuplicate: puts one of the two rows that clash into the view's record, for the message. If the row
  // cannot be read, some columns have no value. This object owns the packed row to which the record points.
  virtual void show_duplicate();
  bool needs_whole_rows() const override { return false; }

  // From now on log() does nothing, because the ALTER has ended or has been given up.
  void close() { closed_.store(true, std::memory_order_release); }

 protected:
  // One record of the log. The derived class defines what key and value mean.
  struct Change {
    bool put = false;
    std::string key = {}, value = {};
  };

  // From the construction on, log() must be called for every change of a row. `view`: of the altered
  // table.
  OnlineBuild(Plan plan, Resources resources, BuildView *view);

  virtual Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) = 0;
  // Applies changes, which come in the order of the log. Some may have been applied before, by a replay that
  // then failed to remove them from the log.
  virtual Status apply(const std::vector<Change> &changes) = 0;

  Status append(txn::Transaction *transaction, const Change &change);
  // Adds the puts (`put`) or deletions of a row's entries in all secondary indexes to `batch`. `codec` can
  // read the row. `primary_key` is the row's key in the altered table. Errors: kCorruption, kInvalid (of
  // BuildView::compute).
  Status change_entries(const codec::RowCodec &codec, std::string_view row, std::string_view primary_key,
                        bool put, rocksdb::WriteBatch *batch);
  // Writes the batch that change_entries() has filled, and notes new entries of unique indexes as suspect if
  // they clash with others.
  Status write_entries(rocksdb::WriteBatch *batch);
  // *unique: whether at most one entry begins with `start`. *first: the key of the first entry that begins
  // with it; empty: there is none.
  Status is_unique(std::string_view start, bool *unique, std::string *first) const;
  // Notes `start` as suspect, for finish(), if at least two entries of the unique index begin with it now.
  Status suspect_if_double(size_t index, const std::string &start);
  Status write(rocksdb::WriteBatch *batch) const;  // to the main database

  const std::shared_ptr<const Layout> layout_;
  const std::vector<size_t> indexes_;
  BuildView &view_;
  std::string duplicate_key_;  // the key of the first of the entries that clash
  std::string shown_row_;

 private:
  Status apply_and_forget(std::vector<Change> *changes, std::vector<std::string> *log_keys);

  const Resources resources_;
  std::string log_start_, log_end_;  // the range of all keys of the log
  std::atomic<uint64_t> next_number_{0};
  std::atomic<bool> closed_{false};
  std::atomic<const char *> spoiled_{nullptr};
  std::string entry_key_, entry_value_;
  std::vector<std::pair<size_t, std::string>> unique_starts_;  // unwritten entries: index, unique bytes
  std::set<std::pair<size_t, std::string>> suspects_;          // entries that clashed: index, unique bytes
  size_t duplicate_index_ = 0;
};

}  // namespace atoll::table
