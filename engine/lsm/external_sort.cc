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
// Files that are merged at once: each takes two buffers of 256 KiB and a file descriptor.
constexpr size_t kMergedFilesMax = 64;
constexpr uint64_t kRowsPerAbortCheck = 1024;

using Cursors = std::vector<std::unique_ptr<RunCursor>>;

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

// Of the first `count` files.
Status open_cursors(const std::vector<std::string> &files, size_t count, Cursors *cursors) {
  for (size_t i = 0; i < count; ++i) {
    Status status;
    cursors->push_back(open_spilled_run(files[i], &status));
    ATOLL_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
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
  // With many sorts on one budget each gets less.
  const uint64_t run_bytes = std::clamp(budget_->bytes_left() / 2, kRunBytesMin, run_bytes_);
  filling_ = std::make_unique<SortRun>(std::max<uint64_t>(run_bytes, row_bytes));
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
  if (keep) {
    std::lock_guard lock(mutex_);
    sorted_.push_back(std::move(run));
    return Status::Ok();
  }
  const Status status = spill(*run);
  budget_->bytes_used -= bytes;
  return status;
}

// Goes on with the last file if the run lies behind it.
Status ExternalSort::spill(const SortRun &run) {
  if (writer_ != nullptr && run.first_key() < last_spilled_key_) ATOLL_RETURN_IF_ERROR(close_file());
  if (writer_ == nullptr) ATOLL_RETURN_IF_ERROR(open_file());
  last_spilled_key_ = run.last_key();
  return run.spill(writer_.get());
}

Status ExternalSort::open_file() {
  const std::string path = spill_prefix_ + std::to_string(++files_made_) + ".run";
  spilled_.push_back(path);
  return RunWriter::open(path, &writer_);
}

Status ExternalSort::close_file() {
  if (writer_ == nullptr) return Status::Ok();
  const Status status = writer_->finish();
  writer_.reset();
  return status;
}

Status ExternalSort::wait_sorted() {
  if (filling_ != nullptr && filling_->rows() > 0) hand_over();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (queue_.empty() && !busy_) || has_failed(); });
  return status_;
}

// ---- merging -------------------------------------------------------------------------------------

// Until so few files are left that they can be merged at once; the first step takes as many as make the
// others full.
Status ExternalSort::merge_files(const std::function<bool()> &is_aborted) {
  while (spilled_.size() > kMergedFilesMax) {
    const size_t count = std::min(kMergedFilesMax, spilled_.size() - kMergedFilesMax + 1);
    Cursors cursors;
    ATOLL_RETURN_IF_ERROR(open_cursors(spilled_, count, &cursors));
    ATOLL_RETURN_IF_ERROR(open_file());
    uint64_t rows = 0;
    const auto write = [&](std::string_view key, std::string_view value) {
      if (++rows % kRowsPerAbortCheck == 0 && is_aborted()) return Status(Code::kInterrupted, "aborted");
      return writer_->add(key, value);
    };
    ATOLL_RETURN_IF_ERROR(merge_cursors(cursors, write));
    ATOLL_RETURN_IF_ERROR(close_file());
    const auto end = spilled_.begin() + static_cast<ptrdiff_t>(count);
    std::error_code ignored;
    std::for_each(spilled_.begin(), end,
                  [&](const std::string &path) { std::filesystem::remove(path, ignored); });
    spilled_.erase(spilled_.begin(), end);
  }
  return Status::Ok();
}

Status ExternalSort::merge(const Each &each, const std::function<bool()> &is_aborted) {
  ATOLL_RETURN_IF_ERROR(wait_sorted());
  ATOLL_RETURN_IF_ERROR(close_file());
  ATOLL_RETURN_IF_ERROR(merge_files(is_aborted));
  Cursors cursors;
  ATOLL_RETURN_IF_ERROR(open_cursors(spilled_, spilled_.size(), &cursors));
  for (const auto &run : sorted_) cursors.push_back(run->cursor());
  return merge_cursors(cursors, each);
}

}  // namespace atoll::lsm
