#include "lsm/external_sort.h"

#include <algorithm>
#include <filesystem>

#include "lsm/sort_run.h"

namespace atoll::lsm {
namespace {

// Runs are a sixteenth of the budget: filling, waiting and being sorted take three of them, and the merge
// of sixteen runs costs four comparisons a row.
constexpr uint64_t kRunsPerBudget = 16;
constexpr uint64_t kRunBytesMin = 64 * 1024;
constexpr uint64_t kRunBytesMax = 16ull << 20;
constexpr size_t kQueuedRunsMax = 2;

// Replaces the heap's top after it has moved on. The smallest key is at the front.
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

}  // namespace

ExternalSort::ExternalSort(std::shared_ptr<SortBudget> budget, std::string spill_prefix)
    : budget_(std::move(budget)), spill_prefix_(std::move(spill_prefix)) {
  run_bytes_ = std::clamp(budget_->bytes_max / kRunsPerBudget, kRunBytesMin, kRunBytesMax);
}

ExternalSort::~ExternalSort() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const auto give_back = [this](const std::unique_ptr<SortRun> &run) {
    if (run) budget_->bytes_used -= run->memory_bytes();
  };
  give_back(filling_);
  for (const auto &run : queue_) give_back(run);
  for (const auto &run : sorted_) give_back(run);
  std::error_code ignored;
  for (const std::string &path : spilled_) std::filesystem::remove(path, ignored);
}

// ---- filling -------------------------------------------------------------------------------------

Status ExternalSort::add(std::string_view key, std::string_view value) {
  if (filling_ == nullptr || !filling_->fits(key.size(), value.size())) {
    if (has_failed()) {
      std::lock_guard lock(mutex_);
      return status_;
    }
    start_run(key.size() + value.size() + 8);
  }
  filling_->add(key, value);
  ++rows_;
  return Status::Ok();
}

void ExternalSort::start_run(size_t row_bytes) {
  if (filling_ != nullptr) hand_over();
  filling_ = std::make_unique<SortRun>(std::max<uint64_t>(run_bytes_, row_bytes));
  budget_->bytes_used += filling_->memory_bytes();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void ExternalSort::hand_over() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.size() < kQueuedRunsMax || has_failed(); });
  queue_.push_back(std::move(filling_));
  changed_.notify_all();
}

// ---- sorting -------------------------------------------------------------------------------------

void ExternalSort::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (stopping_) return;
    std::unique_ptr<SortRun> next = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    changed_.notify_all();
    lock.unlock();
    const Status status = sort_or_spill(std::move(next));
    lock.lock();
    busy_ = false;
    if (!status.ok() && status_.ok()) status_ = status;
    failed_.store(!status_.ok());
    changed_.notify_all();
  }
}

Status ExternalSort::sort_or_spill(std::unique_ptr<SortRun> run) {
  const uint64_t before = run->memory_bytes();
  run->sort();
  const uint64_t bytes = run->memory_bytes();
  const uint64_t used = budget_->bytes_used += bytes - before;
  // Room for the runs being filled and waiting must stay.
  const bool keep = used + kQueuedRunsMax * run_bytes_ <= budget_->bytes_max;
  Status status;
  std::string path;
  if (!keep) {
    std::lock_guard lock(mutex_);
    path = spill_prefix_ + std::to_string(spilled_.size() + 1) + ".run";
    spilled_.push_back(path);
  }
  if (!keep) status = run->spill(path);
  if (keep) {
    std::lock_guard lock(mutex_);
    sorted_.push_back(std::move(run));
  } else {
    budget_->bytes_used -= bytes;
  }
  return status;
}

Status ExternalSort::wait_sorted() {
  if (filling_ != nullptr && filling_->rows() > 0) hand_over();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (queue_.empty() && !busy_) || has_failed(); });
  return status_;
}

// ---- merging -------------------------------------------------------------------------------------

Status ExternalSort::open_cursors(std::vector<std::unique_ptr<RunCursor>> *cursors) {
  for (const auto &run : sorted_) cursors->push_back(run->cursor());
  for (const std::string &path : spilled_) {
    Status status;
    cursors->push_back(open_spilled_run(path, &status));
    ATOLL_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
}

Status ExternalSort::merge(const std::function<Status(std::string_view key, std::string_view value)> &each) {
  ATOLL_RETURN_IF_ERROR(wait_sorted());
  std::vector<std::unique_ptr<RunCursor>> cursors;
  ATOLL_RETURN_IF_ERROR(open_cursors(&cursors));
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

}  // namespace atoll::lsm
