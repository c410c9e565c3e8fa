// Sorts more rows than fit in memory: runs are filled by the adding thread, sorted (and, beyond the
// budget, written to local disk) by a thread of the sort's own while more rows come in, and merged at the
// end. Rows that come in order, as a scan in the order of the same key gives them, make one file; those in
// any order one for each run, which are merged in several passes if they are many.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "lsm/sort_budget.h"

namespace atoll::lsm {

class SortRun;  // rows in memory, and their order
class RunCursor;
class RunWriter;

// Threads: add() and merge() by one thread at a time.
class ExternalSort {
 public:
  // `spill_prefix`: spilled runs are <prefix><n>.run.
  ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix);
  ~ExternalSort();  // removes spilled runs

  // Errors: kNoSpace, kUnavailable (spilling failed).
  Status add(std::string_view key, std::string_view value);
  // Calls `each` in ascending key order, equal keys in no particular order; stops when it returns not ok.
  // Once only; nothing may be added after it. Errors: those of `each` and of local files, kInterrupted if
  // `is_aborted` said so.
  using Each = std::function<Status(std::string_view key, std::string_view value)>;
  Status merge(const Each &each, const std::function<bool()> &is_aborted);

  uint64_t rows() const { return rows_; }
  size_t spilled_files() const { return spilled_.size(); }  // those that are there
  size_t files_made() const { return files_made_; }

 private:
  void start_run(size_t row_bytes);
  void hand_over();
  void run();
  Status sort_or_spill(std::unique_ptr<SortRun> run);
  Status spill(const SortRun &run);
  Status open_file();
  Status close_file();
  Status wait_sorted();
  Status merge_files(const std::function<bool()> &is_aborted);
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }

  const std::shared_ptr<SortBudget> budget_;
  const std::string spill_prefix_;
  uint64_t run_bytes_ = 0;
  uint64_t rows_ = 0;
  std::unique_ptr<SortRun> filling_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<SortRun>> queue_;
  std::vector<std::unique_ptr<SortRun>> sorted_;
  std::vector<std::string> spilled_;
  size_t files_made_ = 0;
  bool busy_ = false;
  bool stopping_ = false;
  Status status_;
  std::atomic<bool> failed_{false};
  std::thread thread_;

  // The file being written and its last key. Of the sorting thread, and of merge() when that has come to
  // rest.
  std::unique_ptr<RunWriter> writer_;
  std::string last_spilled_key_;
};

}  // namespace atoll::lsm
