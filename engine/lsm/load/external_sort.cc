#include "lsm/load/external_sort.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "base/border/border.h"
#include "base/threads/start_threads.h"
#include "lsm/load/sort_run.h"

namespace atoll::lsm {
namespace {

// A run takes a sixteenth of the budget. With a single adder (a thread that adds rows), up to four runs are
// in use at a time: one is filled, two wait, one is sorted. The merge of sixteen runs costs four comparisons
// a row. With many adders, runs are smaller, so that the runs that the adders fill take at most a quarter of
// the budget. If these runs stay in memory, the runs that are filled next take at most another quarter.
constexpr uint64_t kRunsPerBudget = 16;
constexpr uint64_t kRunsPerAdder = 4;
constexpr uint64_t kRunBytesMin = 64 * 1024;
constexpr uint64_t kRunBytesMax = 16ull << 20;
constexpr size_t kQueuedRunsMax = 2;  // with so many full runs in the queue, the adder waits
// The most files that are merged at once. Each takes two buffers of 256 KiB and a file descriptor.
constexpr size_t kMergedFilesMax = 64;
constexpr uint64_t kRowsPerAbortCheck = 1024;  // merged rows between two calls of is_aborted()

using Cursors = std::vector<std::unique_ptr<RunCursor>>;

// Restores the order of the heap after the cursor at its top has moved on. The smallest key is at the front.
void sift_down(std::vector<RunCursor *> *heap) {
  const size_t count = heap->size();
  size_t at = 0;
  RunCursor *moved = (*heap)[0];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && (*heap)[child + 1]->key() < (*heap)[child]->key()) ++child;
    if (moved->key() <= (*heap)[child]->key()) break;
    (*heap)[at] = (*heap)[child];
    at = child;
  }
  (*heap)[at] = moved;
}

Status merge_cursors(const Cursors &cursors, const ExternalSort::Each &each) {
  std::vector<RunCursor *> heap;
  for (const auto &cursor : cursors) {
    bool more = false;
    ATOLL_RETURN_IF_ERROR(cursor->next(&more));
    if (more) heap.push_back(cursor.get());
  }
  std::sort(heap.begin(), heap.end(),
            [](const RunCursor *a, const RunCursor *b) { return a->key() < b->key(); });
  while (!heap.empty()) {
    ATOLL_RETURN_IF_ERROR(each(heap[0]->key(), heap[0]->value()));
    bool more = false;
    ATOLL_RETURN_IF_ERROR(heap[0]->next(&more));
    if (!more) {
      heap[0] = heap.back();
      heap.pop_back();
    }
    if (!heap.empty()) sift_down(&heap);
  }
  return Status::Ok();
}

// Opens cursors on the first `count` files.
Status open_cursors(const std::vector<std::string> &files, size_t count, Cursors *cursors) {
  for (size_t i = 0; i < count; ++i) {
    Status status;
    cursors->push_back(open_spilled_run(files[i], &status));
    ATOLL_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
}

}  // namespace

ExternalSort::ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix, size_t adders)
    : budget_(std::move(budget)), spill_prefix_(std::move(spill_prefix)), adders_(adders) {
  if (adders > 1) budget_->adders += adders;
}

ExternalSort::~ExternalSort() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread &thread : thread_) thread.join();
  if (adders_.size() > 1) budget_->adders -= adders_.size();
  const auto give_back = [this](const std::unique_ptr<SortRun> &run) {
    if (run) budget_->bytes_used -= run->memory_bytes();
  };
  for (const Adder &adder : adders_) give_back(adder.filling);
  for (const auto &run : queue_) give_back(run);
  for (const auto &run : sorted_) give_back(run);
  std::error_code ignored;
  for (const std::string &path : spilled_) std::filesystem::remove(path, ignored);
}

uint64_t ExternalSort::rows() const {
  uint64_t rows = 0;
  for (const Adder &adder : adders_) rows += adder.rows;
  return rows;
}

Status ExternalSort::remember(const Status &status) {
  if (status.ok()) return status;
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true);
  return status;
}

Status ExternalSort::failure() {
  MutexLock lock(mutex_);
  return status_;
}

// ---- filling runs with rows ----------------------------------------------------------------------

Status ExternalSort::add(std::string_view key, std::string_view value, size_t adder) {
  Adder &to = adders_[adder];
  if (to.filling == nullptr || !to.filling->fits(key.size(), value.size()))
    ATOLL_RETURN_IF_ERROR(start_run(&to, key.size() + value.size() + 8));
  to.filling->add(key, value);
  ++to.rows;
  return Status::Ok();
}

uint64_t ExternalSort::run_bytes() const {
  const uint64_t runs = std::max(kRunsPerBudget, kRunsPerAdder * budget_->adders.load());
  return std::clamp(budget_->bytes_max / runs, kRunBytesMin, kRunBytesMax);
}

Status ExternalSort::start_run(Adder *adder, size_t row_bytes) {
  if (has_failed()) return failure();
  if (adder->filling != nullptr) ATOLL_RETURN_IF_ERROR(hand_over(adder));
  // When many sorts share one budget, each gets smaller runs.
  const uint64_t bytes = std::clamp(budget_->bytes_left() / 2, kRunBytesMin, run_bytes());
  adder->filling = std::make_unique<SortRun>(std::max<uint64_t>(bytes, row_bytes));
  budget_->bytes_used += adder->filling->memory_bytes();
  return Status::Ok();
}

Status ExternalSort::hand_over(Adder *adder) {
  if (adders_.size() > 1) return sort_run_of(adder, std::move(adder->filling));
  return enqueue(std::move(adder->filling));
}

Status ExternalSort::enqueue(std::unique_ptr<SortRun> run) {
  if (start_threads(&thread_, 1, [this](size_t) { this->run(); }) == 0)
    return sort_run_of(&adders_[0], std::move(run));
  MutexLock lock(mutex_);
  changed_.wait(lock,
                [this]() ATOLL_REQUIRES(mutex_) { return queue_.size() < kQueuedRunsMax || has_failed(); });
  queue_.push_back(std::move(run));
  changed_.notify_all();
  return Status::Ok();
}

// ---- sorting and spilling runs -------------------------------------------------------------------

void ExternalSort::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() ATOLL_REQUIRES(mutex_) { return !queue_.empty() || stopping_; });
    if (stopping_) return;
    std::unique_ptr<SortRun> next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    changed_.notify_all();
    lock.unlock();
    (void)sort_run_of(&adders_[0], std::move(next));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

Status ExternalSort::sort_run_of(Adder *adder, std::unique_ptr<SortRun> run) {
  return remember(guarded([&] { return sort_or_spill(adder, std::move(run)); }));
}

Status ExternalSort::sort_or_spill(Adder *adder, std::unique_ptr<SortRun> run) {
  const uint64_t before = run->memory_bytes();
  run->sort();
  const uint64_t bytes = run->memory_bytes();
  const uint64_t used = budget_->bytes_used += bytes - before;
  // The run stays in memory only if the budget then still has room for the runs that wait or are filled next.
  const uint64_t next_runs = std::max<uint64_t>(kQueuedRunsMax, budget_->adders.load());
  if (used + next_runs * run_bytes() <= budget_->bytes_max) {
    MutexLock lock(mutex_);
    sorted_.push_back(std::move(run));
    return Status::Ok();
  }
  const Status status = spill(adder, *run);
  budget_->bytes_used -= bytes;
  return status;
}

// Appends the run to the adder's last file if the run's keys follow the keys of that file, else writes it to
// a new file.
Status ExternalSort::spill(Adder *adder, const SortRun &run) {
  if (adder->writer != nullptr && run.first_key() < adder->last_spilled_key)
    ATOLL_RETURN_IF_ERROR(close_file(&adder->writer));
  if (adder->writer == nullptr) ATOLL_RETURN_IF_ERROR(open_file(&adder->writer));
  adder->last_spilled_key = run.last_key();
  return run.spill(adder->writer.get());
}

Status ExternalSort::open_file(std::unique_ptr<RunWriter> *writer) {
  std::string path;
  {
    MutexLock lock(mutex_);
    path = spill_prefix_ + std::to_string(++files_made_) + ".run";
    spilled_.push_back(path);
  }
  return RunWriter::open(path, writer);
}

Status ExternalSort::close_file(std::unique_ptr<RunWriter> *writer) {
  if (*writer == nullptr) return Status::Ok();
  const Status status = (*writer)->finish();
  writer->reset();
  return status;
}

// Sorts the adders' last runs, which are not full. Several adders' runs are sorted in parallel.
Status ExternalSort::sort_last_runs() {
  std::vector<std::future<Status>> sorting;
  for (Adder &adder : adders_) {
    if (adder.filling == nullptr) continue;
    if (adders_.size() == 1)
      ATOLL_RETURN_IF_ERROR(hand_over(&adder));
    else
      sorting.push_back(std::async(kOwnThreadIfPossible, [this, &adder] { return hand_over(&adder); }));
  }
  for (std::future<Status> &sorted : sorting) sorted.wait();
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() ATOLL_REQUIRES(mutex_) { return (queue_.empty() && !busy_) || has_failed(); });
  return status_;
}

// ---- merging runs and files ----------------------------------------------------------------------

// Merges files into larger ones until only kMergedFilesMax are left, because merge() can read no more at
// once. Each round of the loop merges kMergedFilesMax files into one; the last round merges only as many as
// needed.
Status ExternalSort::merge_files(const std::function<bool()> &is_aborted) {
  while (spilled_.size() > kMergedFilesMax) {
    const size_t count = std::min(kMergedFilesMax, spilled_.size() - kMergedFilesMax + 1);
    Cursors cursors;
    ATOLL_RETURN_IF_ERROR(open_cursors(spilled_, count, &cursors));
    std::unique_ptr<RunWriter> writer;
    ATOLL_RETURN_IF_ERROR(open_file(&writer));
    uint64_t rows = 0;
    const auto write = [&](std::string_view key, std::string_view value) {
      if (++rows % kRowsPerAbortCheck == 0 && is_aborted()) return Status(Code::kInterrupted, "aborted");
      return writer->add(key, value);
    };
    ATOLL_RETURN_IF_ERROR(merge_cursors(cursors, write));
    ATOLL_RETURN_IF_ERROR(close_file(&writer));
    const auto end = spilled_.begin() + static_cast<ptrdiff_t>(count);
    std::error_code ignored;
    std::for_each(spilled_.begin(), end,
                  [&](const std::string &path) { std::filesystem::remove(path, ignored); });
    spilled_.erase(spilled_.begin(), end);
  }
  return Status::Ok();
}

Status ExternalSort::merge(const Each &each, const std::function<bool()> &is_aborted) {
  ATOLL_RETURN_IF_ERROR(sort_last_runs());
  for (Adder &adder : adders_) ATOLL_RETURN_IF_ERROR(close_file(&adder.writer));
  ATOLL_RETURN_IF_ERROR(merge_files(is_aborted));
  Cursors cursors;
  ATOLL_RETURN_IF_ERROR(open_cursors(spilled_, spilled_.size(), &cursors));
  for (const auto &run : sorted_) cursors.push_back(run->cursor());
  return merge_cursors(cursors, each);
}

}  // namespace atoll::lsm
