// Counters of the work that statements cause. They tell what a row costs, independent of the time that it
// takes.
//
// Each connection has a Work of its own, and so has each helper thread. SHOW SESSION STATUS shows the
// connection's Work, SHOW GLOBAL STATUS the sum of all. The cost contracts (tests/cost/test_cost.py) read the
// counters before and after a statement.
//
// Threads: only one thread at a time counts in a Work, but any thread reads it. Counting is a load and a
// store, without a locked instruction. The memory of a Work is never freed, but the next OwnWork uses it
// again. So a thread that still points to the Work of a closed connection damages nothing; at worst its
// counts go to another connection.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/namespace.h"

namespace atoll {

// The kinds of work. Each comment says what is counted.
enum class WorkKind : uint8_t {
  kCursorsOpened,   // iterators made in RocksDB
  kCursorSeeks,     // searches by a cursor, in either direction
  kCursorSteps,     // entries to which a cursor moved on, in either direction
  kEntriesHidden,   // tombstones and old versions that a cursor skipped; counted when it closes
  kPointGets,       // keys looked up one by one
  kMultiGets,       // lookups of many keys at once
  kMultiGetKeys,    // keys in those lookups
  kRowsUnpacked,    // rows and index entries turned into records
  kConditions,      // conditions that the engine evaluated, on rows and on entries
  kRangeEstimates,  // ranges whose rows were estimated for the optimizer
  kEstimateSteps,   // entries that a cursor read for such an estimate
  kBlocksCached,    // blocks found in the block cache
  kBlocksRead,      // blocks read from a file or the bucket
  kFileReads,       // reads of table files: local ones, cached parts or the bucket
  kRowLocks,        // row locks that were requested
  kRangeLocks,      // ranges that were locked
  kWrites,          // puts and removals added to a write set
  kLogBytes,        // bytes committed to the log
  kLogSyncs,        // syncs of the log that a commit, or a change of definitions, waited for
};
constexpr size_t kWorkKinds = static_cast<size_t>(WorkKind::kLogSyncs) + 1;

// The name of a counter in SHOW STATUS, without the prefix "Atoll_work_".
std::string_view work_name(WorkKind kind);

// The counters of one connection or helper thread. An OwnWork takes one and gives it back.
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

// Owns a Work for as long as this object exists. The counts stay in the global sum (work_of_all())
// afterwards.
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
// The initial-exec model places this pointer in static thread storage. With the default model of a shared
// library, each access would call a function.
extern thread_local Work *current_work __attribute__((tls_model("initial-exec")));
}  // namespace internal

// From now on the calling thread counts in `work`; nullptr: it does not count.
inline void set_current_work(Work *work) { internal::current_work = work; }
inline Work *current_work() { return internal::current_work; }

inline void count_work(WorkKind kind, uint64_t count = 1) {
  if (Work *work = internal::current_work; work != nullptr) work->add(kind, count);
}

// A helper thread makes this object: while it exists, the thread counts in `work`. When the helper has ended,
// the thread that it helped adds these counts to its own with add_all().
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
