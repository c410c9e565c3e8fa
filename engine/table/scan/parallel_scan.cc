// See parallel_scan.h.
#include "table/scan/parallel_scan.h"

#include <chrono>

#include "base/border/border.h"
#include "base/interrupt.h"
#include "base/threads/start_threads.h"
#include "codec/large_row.h"

namespace atoll::table {
namespace {

constexpr auto kWaitMax = std::chrono::milliseconds(100);

}  // namespace

ParallelScan::ParallelScan(Request request) : request_(std::move(request)) {
  std::string begin = request_.begin;
  for (const std::string &split : request_.splits) {
    pieces_.emplace_back();
    pieces_.back().begin = begin;
    pieces_.back().end = split;
    begin = split;
  }
  pieces_.emplace_back();
  pieces_.back().begin = begin;
  pieces_.back().end = request_.end;
  MutexLock guard(mutex_);  // the threads wait with their first piece until threads_running_ is set
  threads_running_ = start_threads(&threads_, thread_count(request_), [this](size_t i) { work(i); });
  if (threads_running_ == 0) fail_without_threads();
}

ParallelScan::~ParallelScan() {
  {
    MutexLock guard(mutex_);
    stop_ = true;
  }
  producers_.notify_all();
  for (std::thread &thread : threads_) thread.join();
  if (current_work() != nullptr) current_work()->add_all(helped_);
}

void ParallelScan::fail_without_threads() {
  failure_ = Status(Code::kNoMemory, "the server process got no thread to scan the table with");
  Piece &first = pieces_.front();
  first.done = true;
  first.status = failure_;
}

size_t ParallelScan::thread_count(const Request &request) {
  return std::min(request.threads, request.splits.size() + 1);
}

// ---- Functions of the scan's threads -------------------------------------------------------------

void ParallelScan::work(size_t thread) {
  Work mine;
  const WorkScope scope(&mine);
  const InterruptScope interrupt(&stop_);
  for (size_t index = 0; take_piece(&index);)
    finish_piece(index, guarded([&] { return scan_piece(thread, index); }));
  MutexLock guard(mutex_);
  helped_.add_all(mine);
  threads_running_--;
  consumer_.notify_one();
}

bool ParallelScan::take_piece(size_t *index) {
  MutexLock guard(mutex_);
  if (stop_ || next_piece_ >= pieces_.size()) return false;
  *index = next_piece_++;
  return true;
}

Status ParallelScan::scan_piece(size_t thread, size_t index) {
  const Piece &piece = pieces_[index];
  rocksdb::ReadOptions options;
  options.snapshot = request_.snapshot;
  const rocksdb::Slice lower(piece.begin), upper(piece.end);
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  options.readahead_size = 2 << 20;
  options.adaptive_readahead = true;
  options.auto_readahead_size = true;
  std::unique_ptr<rocksdb::Iterator> it = request_.family->iterator(options);

  auto chunk = std::make_unique<Chunk>();
  Status status;
  count_work(WorkKind::kCursorsOpened);
  count_work(WorkKind::kCursorSeeks);
  for (it->Seek(lower); !stop_ && it->Valid(); it->Next()) {
    count_work(WorkKind::kCursorSteps);
    const std::string_view key = it->key().ToStringView(), row = it->value().ToStringView();
    bool row_passes = true;
    if (request_.predicate != nullptr) status = passes(key, row, &row_passes);
    if (status.ok() && row_passes && request_.take) status = request_.take(thread, key, row);
    if (!status.ok()) break;
    if (row_passes && !request_.take) collect(index, key, row, &chunk);
  }
  if (!chunk->empty()) hand_over(index, std::move(chunk));
  return status.ok() ? lsm::from_rocksdb(it->status()) : status;
}

void ParallelScan::finish_piece(size_t index, const Status &status) {
  MutexLock guard(mutex_);
  pieces_[index].done = true;
  pieces_[index].status = status;
  if (!status.ok() && request_.take) {
    if (failure_.ok()) failure_ = status;
    stop_ = true;
  }
  consumer_.notify_one();
}

Status ParallelScan::passes(std::string_view key, std::string_view stored, bool *passes) const {
  count_work(WorkKind::kConditions);
  codec::Truth truth = codec::Truth::kFalse;
  std::string buffer;
  if (codec::is_large_row(stored)) ATOLL_RETURN_IF_ERROR(request_.whole_row(key, stored, &buffer, &stored));
  if (request_.predicate->try_evaluate(*request_.row, stored, &truth) != Code::kOk)
    return request_.predicate->evaluate(*request_.row, stored, &truth);
  *passes = truth == codec::Truth::kTrue;
  return Status::Ok();
}

void ParallelScan::collect(size_t index, std::string_view key, std::string_view row,
                           std::unique_ptr<Chunk> *chunk) {
  Chunk &filling = **chunk;
  filling.append(key, row);
  if (filling.bytes() < kChunkBytes) return;
  hand_over(index, std::move(*chunk));
  *chunk = std::make_unique<Chunk>();
}

bool ParallelScan::may_queue(size_t index) const {
  const bool is_next = index == current_piece_;
  return pieces_[index].queued_bytes < kPieceBytesMax && (is_next || queued_bytes_ < kQueuedBytesMax);
}

void ParallelScan::hand_over(size_t index, std::unique_ptr<Chunk> chunk) {
  Piece &piece = pieces_[index];
  MutexLock guard(mutex_);
  producers_.wait(guard, [&]() ATOLL_REQUIRES(mutex_) { return stop_ || may_queue(index); });
  if (stop_) return;
  piece.queued_bytes += chunk->bytes();
  queued_bytes_ += chunk->bytes();
  queued_bytes_most_ = std::max(queued_bytes_most_, queued_bytes_);
  piece.chunks.push_back(std::move(chunk));
  if (index == current_piece_) consumer_.notify_one();
}

// ---- Functions of the caller's thread ------------------------------------------------------------

Status ParallelScan::wait(bool *end) {
  MutexLock guard(mutex_);
  *end = consumer_.wait_for(guard, kWaitMax, [&]() ATOLL_REQUIRES(mutex_) { return threads_running_ == 0; });
  return *end ? failure_ : Status::Ok();
}

Status ParallelScan::next(std::string_view *key, std::string_view *row, bool *end, bool *waiting) {
  *end = false;
  *waiting = false;
  while (!chunk_ || chunk_entry_ >= chunk_->size()) {
    MutexLock guard(mutex_);
    Piece &piece = pieces_[current_piece_];
    const bool ready =
        consumer_.wait_for(guard, kWaitMax, [&] { return !piece.chunks.empty() || piece.done; });
    if (!ready) {
      *waiting = true;
      return Status::Ok();
    }
    if (!piece.chunks.empty()) {
      chunk_ = std::move(piece.chunks.front());
      piece.chunks.pop_front();
      piece.queued_bytes -= chunk_->bytes();
      queued_bytes_ -= chunk_->bytes();
      chunk_entry_ = 0;
      producers_.notify_all();
      continue;
    }
    if (!piece.status.ok()) return piece.status;
    if (++current_piece_ == pieces_.size()) {
      current_piece_--;  // the last piece stays the current one, so that a further call returns *end again
      *end = true;
      return Status::Ok();
    }
    producers_.notify_all();  // the thread of the new current piece may be waiting in hand_over()
  }
  *key = chunk_->key(chunk_entry_);
  *row = chunk_->value(chunk_entry_++);
  return Status::Ok();
}

}  // namespace atoll::table
