// An index that is being built while others write the table (LOCK=NONE).
//
// The rows as they were when the build began are scanned, sorted and ingested by IndexBuild. What changed
// since stands in a log, in the order of the changes of each row, and is replayed on top:
//
//   writer   ── its transaction ──▶ rows, finished indexes (main)
//                              └──▶ log: "put" or "remove" of an entry (temp)
//   ALTER    scan at snapshot ─▶ ingest ─▶ replay … replay ─▶ exclusive lock ─▶ last replay ─▶ catalog
//
// The log is in the temp database: its records commit and roll back with the transaction that wrote them, and
// after a crash neither the log nor the index is there. Writers never touch the index itself, so an entry
// that a transaction removed cannot come back with the ingestion.
//
// Order: log records are numbered when they are written. Two changes of one row are ordered by its lock,
// which the first holds until it has committed, so numbers of one row grow in commit order.
// Uniqueness is checked at the end: an entry that is put beside another of the same value is suspect, and
// suspects are looked at again when nothing can change any more.
//
// Threads: log() from any writer; all else from the ALTER's thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "handler/layout.h"
#include "txn/transaction.h"

namespace atoll::handler {

class OnlineBuild {
 public:
  // `layout`: of the altered table, whose records must be those of the table that writers use. `indexes`: the
  // numbers of those being built. From now on log() must be called for every change.
  OnlineBuild(std::shared_ptr<const Layout> layout, std::vector<size_t> indexes);
  ~OnlineBuild();
  OnlineBuild(const OnlineBuild &) = delete;
  OnlineBuild &operator=(const OnlineBuild &) = delete;

  struct RowImage {
    const uint8_t *record = nullptr;  // nullptr: there is no such row
    const std::string *primary_key = nullptr;
  };
  // Notes a change of a row in the writer's transaction. Errors: those of Transaction::put.
  Status log(txn::Transaction *transaction, const RowImage &before, const RowImage &after);

  // The index would be wrong: a transaction's end and its log records went different ways. The ALTER fails.
  void spoil(const char *reason) { spoiled_.store(reason, std::memory_order_release); }

  // Moves what has been committed to the log into the indexes. *records: how many there were. `progress` is
  // asked now and then; false ends it with kInterrupted. Errors: kInterrupted, and of writing.
  Status replay(const std::function<bool()> &progress, uint64_t *records);

  // The last replay. Requires: no transaction with log records runs. Errors: as replay(), kInvalid (spoiled),
  // kDuplicate (duplicate_index() and duplicate_key() say of what).
  Status finish(const std::function<bool()> &progress);
  size_t duplicate_index() const { return duplicate_index_; }
  const std::string &duplicate_key() const { return duplicate_key_; }

  // Nothing is logged from now on.
  void close() { closed_.store(true, std::memory_order_release); }

 private:
  struct Record;
  struct Batch;

  Status append(txn::Transaction *transaction, size_t index, bool put, std::string_view key,
                std::string_view value);
  Status apply(Batch *batch);
  Status find_suspects(const Batch &batch);
  Status is_unique(std::string_view start, bool *unique, std::string *first);

  const std::shared_ptr<const Layout> layout_;
  const std::vector<size_t> indexes_;
  lsm::Database *const database_;
  std::string log_start_, log_end_;  // all log keys are between
  std::atomic<uint64_t> next_number_{0};
  std::atomic<bool> closed_{false};
  std::atomic<const char *> spoiled_{nullptr};
  std::set<std::pair<size_t, std::string>> suspects_;  // index, start of the entries
  size_t duplicate_index_ = 0;
  std::string duplicate_key_;
};

}  // namespace atoll::handler
