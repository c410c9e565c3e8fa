// Sorts more rows than fit in memory: runs are filled by the adding threads, sorted (and, beyond the budget,
// written to local disk), and merged at the end. The runs of a single adding thread are sorted by a thread of
// the sort's own while more rows come in; several threads sort what they have filled themselves.
//
// Rows that an adding thread has in order, as a scan in the order of the same key gives them, make one file;
// rows in any other order make one file for each run, and many files are merged in several passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "lsm/load/sort_budget.h"

namespace atoll::lsm {

class SortRun;  // rows in memory, and their order
class RunCursor;
class RunWriter;

// Threads: add() by one thread at a time for each adder; merge() by one, when nobody adds any more.
class ExternalSort {
 public:
  // `spill_prefix`: spilled runs are <prefix><n>.run. `adders`: how many threads may add at a time.
  ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix, size_t adders = 1);
  ~ExternalSort();  // removes spilled runs

  // `adder`: below the number of adders. Errors: kNoSpace, kUnavailable (spilling failed).
  Status add(std::string_view key, std::string_view value, size_t adder = 0);
  // Calls `each` in ascending key order, equal keys in no particular order; stops when it returns not ok.
  // Once only; nothing may be added after it. Errors: those of `each` and of local files, kInterrupted if
  // `is_aborted` said so.
  using Each = std::function<Status(std::string_view key, std::string_view value)>;
  Status merge(const Each &each, const std::function<bool()> &is_aborted) ATOLL_UNCHECKED_THREADS;

  // Requires, here and below: nobody adds, so that no thread sorts.
  uint64_t rows() const;
  size_t spilled_files() const ATOLL_UNCHECKED_THREADS { return spilled_.size(); }  // those that are there
  size_t files_made() const ATOLL_UNCHECKED_THREADS { return files_made_; }

 private:
  // The adders do not share a line of the processor's cache: they write to it with every row.
  struct alignas(64) Adder {
    std::unique_ptr<SortRun> filling;
    uint64_t rows = 0;
    // The file being written and its last key. Used by the thread that sorts the adder's runs.
    std::unique_ptr<RunWriter> writer;
    std::string last_spilled_key;
  };

  uint64_t run_bytes() const;
  Status start_run(Adder *adder, size_t row_bytes);
  Status hand_over(Adder *adder);
  Status enqueue(std::unique_ptr<SortRun> run);
  void run();
  Status sort_run_of(Adder *adder, std::unique_ptr<SortRun> run);  // a failure is remembered
  Status sort_or_spill(Adder *adder, std::unique_ptr<SortRun> run);
  Status spill(Adder *adder, const SortRun &run);
  Status open_file(std::unique_ptr<RunWriter> *writer);
  static Status close_file(std::unique_ptr<RunWriter> *writer);
  Status sort_last_runs();
  // Called after sort_last_runs(), which leaves no thread that sorts.
  Status merge_files(const std::function<bool()> &is_aborted) ATOLL_UNCHECKED_THREADS;
  Status remember(const Status &status);
  Status failure();
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }

  const std::shared_ptr<SortBudget> budget_;
  const std::string spill_prefix_;
  std::vector<Adder> adders_;

  Mutex mutex_;
  Condition changed_;
  std::deque<std::unique_ptr<SortRun>> queue_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<SortRun>> sorted_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::string> spilled_ ATOLL_GUARDED_BY(mutex_);
  size_t files_made_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool busy_ ATOLL_GUARDED_BY(mutex_) = false;
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  Status status_ ATOLL_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
  std::vector<std::thread> thread_;  // that sorts for a single adder; none: the adder does it itself
};

}  // namespace atoll::lsm
