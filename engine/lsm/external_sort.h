// Sorts more rows than fit in memory: runs are filled by the adding thread, sorted (and, beyond the
// budget, written to local disk) by a thread of the sort's own while more rows come in, and merged at the
// end.
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

namespace atoll::lsm {

// Bytes of memory that all sorts of one load may hold; shared by them.
struct SortBudget {
  explicit SortBudget(uint64_t bytes_max_) : bytes_max(bytes_max_) {}
  const uint64_t bytes_max;
  std::atomic<uint64_t> bytes_used{0};
};

class SortRun;  // rows in memory, and their order
class RunCursor;

// Threads: add() and merge() by one thread at a time.
class ExternalSort {
 public:
  // `spill_prefix`: spilled runs are <prefix><n>.run.
  ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix);
  ~ExternalSort();  // removes spilled runs

  // Errors: kNoSpace, kUnavailable (spilling failed).
  Status add(std::string_view key, std::string_view value);
  // Calls `each` in ascending key order, equal keys in no particular order; stops when it returns not ok.
  // Once only; nothing may be added after it.
  Status merge(const std::function<Status(std::string_view key, std::string_view value)> &each);

  uint64_t rows() const { return rows_; }
  size_t spilled_runs() const { return spilled_.size(); }

 private:
  void start_run(size_t row_bytes);
  void hand_over();
  void run();
  Status sort_or_spill(std::unique_ptr<SortRun> run);
  Status wait_sorted();
  Status open_cursors(std::vector<std::unique_ptr<RunCursor>> *cursors);
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
  bool busy_ = false;
  bool stopping_ = false;
  Status status_;
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace atoll::lsm
