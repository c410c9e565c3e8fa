// See work.h.
#include "base/work.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/mutex.h"

namespace atoll {

namespace internal {
thread_local Work *current_work __attribute__((tls_model("initial-exec"))) = nullptr;
}  // namespace internal

namespace {

// All Work objects that were ever made. `free` has those that no OwnWork owns now. Their counters are 0,
// because `ended` has taken over what their last owners counted.
struct Registry {
  Mutex mutex;
  std::deque<Work> all ATOLL_GUARDED_BY(mutex);
  std::vector<Work *> free ATOLL_GUARDED_BY(mutex);
  Work ended ATOLL_GUARDED_BY(mutex);  // the sum of the counts of all OwnWork objects that are gone
};

// Never destroyed, because threads may count until the process ends.
Registry &registry() {
  static auto *const instance = new Registry;
  return *instance;
}

}  // namespace

std::string_view work_name(WorkKind kind) {
  switch (kind) {
    case WorkKind::kCursorsOpened:
      return "cursors_opened";
    case WorkKind::kCursorSeeks:
      return "cursor_seeks";
    case WorkKind::kCursorSteps:
      return "cursor_steps";
    case WorkKind::kEntriesHidden:
      return "entries_hidden";
    case WorkKind::kPointGets:
      return "point_gets";
    case WorkKind::kMultiGets:
      return "multi_gets";
    case WorkKind::kMultiGetKeys:
      return "multi_get_keys";
    case WorkKind::kRowsUnpacked:
      return "rows_unpacked";
    case WorkKind::kConditions:
      return "conditions";
    case WorkKind::kRangeEstimates:
      return "range_estimates";
    case WorkKind::kEstimateSteps:
      return "estimate_steps";
    case WorkKind::kBlocksCached:
      return "blocks_cached";
    case WorkKind::kBlocksRead:
      return "blocks_read";
    case WorkKind::kFileReads:
      return "file_reads";
    case WorkKind::kRowLocks:
      return "row_locks";
    case WorkKind::kRangeLocks:
      return "range_locks";
    case WorkKind::kWrites:
      return "writes";
    case WorkKind::kLogBytes:
      return "log_bytes";
    case WorkKind::kLogSyncs:
      return "log_syncs";
  }
  return "";
}

static Work *take_work() {
  Registry &r = registry();
  const MutexLock guard(r.mutex);
  if (r.free.empty()) {
    // Reserves room in `free` for all objects, because ~OwnWork() must not need memory when it puts one back.
    if (r.free.capacity() <= r.all.size()) r.free.reserve(std::max<size_t>(2 * r.all.size(), 8));
    return &r.all.emplace_back();
  }
  Work *work = r.free.back();
  r.free.pop_back();
  return work;
}

OwnWork::OwnWork() : work_(take_work()) {}

OwnWork::~OwnWork() {
  if (current_work() == work_) set_current_work(nullptr);
  Registry &r = registry();
  const MutexLock guard(r.mutex);
  r.ended.add_all(*work_);
  work_->clear();
  r.free.push_back(work_);
}

uint64_t work_of_all(WorkKind kind) {
  Registry &r = registry();
  const MutexLock guard(r.mutex);
  uint64_t sum = r.ended.count(kind);
  for (const Work &work : r.all) sum += work.count(kind);
  return sum;
}

}  // namespace atoll
