// Counters of the work that statements cause: what a row costs, without a clock.
//
// Each connection has a Work of its own, and so has each helper thread; SHOW SESSION STATUS shows the
// connection's, SHOW GLOBAL STATUS the sum. The cost contracts (tests/cost/test_cost.py) compare two
// readings.
//
// Threads: one thread at a time counts in a Work, any thread reads. Counting is a load and a store, no locked
// instruction. Memory of a Work is never given back to the system: a thread that still points to the Work of
// a closed connection counts for nobody and damages nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/namespace.h"

namespace atoll {

enum class WorkKind : uint8_t {
  kCursorsOpened,   // iterators made in RocksDB
  kCursorSeeks,     // searches by a cursor, in either direction
  kCursorSteps,     // entries a cursor went on to, in either direction
  kEntriesHidden,   // tombstones and versions that a cursor passed; counted when it closes
  kPointGets,       // keys looked up one by one
  kMultiGets,       // lookups of many keys at once
  kMultiGetKeys,    // keys in them
  kRowsUnpacked,    // rows and index entries turned into records
  kConditions,      // conditions evaluated below the server, on rows and on entries
  kRangeEstimates,  // ranges whose rows were estimated for the optimizer
  kEstimateSteps,   // entries a cursor passed for it
  kBlocksCached,    // blocks found in the block cache
  kBlocksRead,      // blocks read from a file or the bucket
  kFileReads,       // reads of table files: local ones, cached parts or the bucket
  kRowLocks,        // row locks asked for
  kRangeLocks,      // ranges locked
  kWrites,          // puts and removals put into the write set
  kLogBytes,        // bytes committed to the log
  kLogSyncs,        // syncs of the log that a commit waited for
};
constexpr size_t kWorkKinds = static_cast<size_t>(WorkKind::kLogSyncs) + 1;

// The name of a counter as in SHOW STATUS, without "Atoll_work_".
std::string_view work_name(WorkKind kind);

class Work {
 public:
  void add(WorkKind kind, uint64_t count) {
    std::atomic<uint64_t> &counter = counters_[static_cast<size_t>(kind)];
    counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  uint64_t count(WorkKind kind) const {
    return counters_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }
  void add_all(const Work &other) {
    for (size_t i = 0; i < kWorkKinds; i++)
      add(static_cast<WorkKind>(i), other.count(static_cast<WorkKind>(i)));
  }
  void clear() {
    for (std::atomic<uint64_t> &counter : counters_) counter.store(0, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kWorkKinds> counters_{};
};

// A Work for as long as this object lives. What was counted in it stays in the sum of all.
class OwnWork {
 public:
  OwnWork();
  ~OwnWork();
  OwnWork(const OwnWork &) = delete;
  OwnWork &operator=(const OwnWork &) = delete;

  Work *get() const { return work_; }

 private:
  Work *const work_;
};

// The sum over all connections and threads since the start of the server.
uint64_t work_of_all(WorkKind kind);

namespace internal {
// One pointer of static thread storage: the default model of a shared library would call a function for each
// access.
extern thread_local Work *current_work __attribute__((tls_model("initial-exec")));
}  // namespace internal

// From now on this thread counts in `work`. nullptr: nowhere.
inline void set_current_work(Work *work) { internal::current_work = work; }
inline Work *current_work() { return internal::current_work; }

inline void count_work(WorkKind kind, uint64_t count = 1) {
  if (Work *work = internal::current_work; work != nullptr) work->add(kind, count);
}

// For a thread that helps another: it counts here, and the other takes over what was counted with add_all()
// when the help has ended.
class WorkScope {
 public:
  explicit WorkScope(Work *work) : before_(current_work()) { set_current_work(work); }
  ~WorkScope() { set_current_work(before_); }
  WorkScope(const WorkScope &) = delete;
  WorkScope &operator=(const WorkScope &) = delete;

 private:
  Work *const before_;
};

}  // namespace atoll
