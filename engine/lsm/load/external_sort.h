// Sorts more rows than fit in memory. The adding threads fill runs with rows. The runs are sorted, written to
// the local disk when the memory budget is used up, and merged at the end. If one thread adds rows, another
// thread sorts the full runs while more rows come in. If several threads add rows, each sorts its own runs.
//
// If an adding thread adds its rows in key order, for example from a scan in that order, all its runs make
// one file. Otherwise each run makes a file of its own, and many files are merged in several passes.
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

// An adder is one of the threads that add rows; each has a number. Threads: for each adder's number, one
// thread at a time calls add(). One thread calls merge(), after the last add().
class ExternalSort {
 public:
  // `spill_prefix`: spilled runs are <prefix><n>.run. `adders`: how many threads can add rows at a time.
  ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix, size_t adders = 1);
  ~ExternalSort();  // removes spilled runs

  // Adds a row. `adder`: the number of the calling thread among those that add rows, from 0. Errors:
  // kNoSpace, kUnavailable (spilling failed).
  Status add(std::string_view key, std::string_view value, size_t adder = 0);
  // Calls `each` for all rows in ascending key order; rows with equal keys come in any order. Stops when
  // `each` returns an error. Call merge() only once, and add() no rows after it. Errors: as `each` and
  // of local files; kInterrupted if `is_aborted` returned true.
  using Each = std::function<Status(std::string_view key, std::string_view value)>;
  Status merge(const Each &each, const std::function<bool()> &is_aborted) ATOLL_UNCHECKED_THREADS;

  // The next three functions require that no thread adds or sorts. They return how many rows were added, how
  // many spilled files exist now, and how many were made in total, also by merges.
  uint64_t rows() const;
  size_t spilled_files() const ATOLL_UNCHECKED_THREADS { return spilled_.size(); }
  size_t files_made() const ATOLL_UNCHECKED_THREADS { return files_made_; }

 private:
  // Each adder has processor cache lines of its own, because the adder's thread writes to them with each row.
  struct alignas(64) Adder {
    std::unique_ptr<SortRun> filling;  // the run to which the adder adds rows; nullptr: none yet
    uint64_t rows = 0;                 // rows added by this adder
    // The file being written and its last key. Used by the thread that sorts the adder's runs.
    std::unique_ptr<RunWriter> writer;
    std::string last_spilled_key;
  };

  uint64_t run_bytes() const;
  Status start_run(Adder *adder, size_t row_bytes);
  Status hand_over(Adder *adder);
  Status enqueue(std::unique_ptr<SortRun> run);
  void run();
  Status sort_run_of(Adder *adder, std::unique_ptr<SortRun> run);  // keeps a failure in status_
  Status sort_or_spill(Adder *adder, std::unique_ptr<SortRun> run);
  Status spill(Adder *adder, const SortRun &run);
  Status open_file(std::unique_ptr<RunWriter> *writer);
  static Status close_file(std::unique_ptr<RunWriter> *writer);
  Status sort_last_runs();
  // Called after sort_last_runs(), when no thread sorts any more.
  Status merge_files(const std::function<bool()> &is_aborted) ATOLL_UNCHECKED_THREADS;
  Status remember(const Status &status);
  Status failure();
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }

  const std::shared_ptr<SortBudget> budget_;
  const std::string spill_prefix_;
  std::vector<Adder> adders_;

  Mutex mutex_;
  Condition changed_;
  std::deque<std::unique_ptr<SortRun>> queue_ ATOLL_GUARDED_BY(mutex_);    // full runs that wait for thread_
  std::vector<std::unique_ptr<SortRun>> sorted_ ATOLL_GUARDED_BY(mutex_);  // runs that stay in memory
  std::vector<std::string> spilled_ ATOLL_GUARDED_BY(mutex_);              // paths of files to merge
  size_t files_made_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool busy_ ATOLL_GUARDED_BY(mutex_) = false;      // true: thread_ sorts a run
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;  // true: thread_ must end
  Status status_ ATOLL_GUARDED_BY(mutex_);          // the first failure
  std::atomic<bool> failed_{false};                 // true: status_ is a failure; read without the mutex
  // The thread that sorts for a single adder. Empty: several adders, or no thread could be started; then the
  // adders sort their runs themselves.
  std::vector<std::thread> thread_;
};

}  // namespace atoll::lsm
