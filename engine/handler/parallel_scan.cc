// See parallel_scan.h.
#include "handler/parallel_scan.h"

#include <chrono>

#include "codec/large_row.h"

namespace atoll::handler {

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
  const size_t threads = std::min(request_.threads, pieces_.size());
  for (size_t i = 0; i < threads; i++) threads_.emplace_back([this] { work(); });
}

ParallelScan::~ParallelScan() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stop_ = true;
  }
  producers_.notify_all();
  for (std::thread &thread : threads_) thread.join();
}

void ParallelScan::work() {
  for (;;) {
    size_t index;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (stop_ || next_piece_ >= pieces_.size()) return;
      index = next_piece_++;
    }
    scan_piece(index);
  }
}

void ParallelScan::scan_piece(size_t index) {
  Piece &piece = pieces_[index];
  rocksdb::ReadOptions options;
  options.snapshot = request_.snapshot;
  const rocksdb::Slice lower(piece.begin), upper(piece.end);
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  options.readahead_size = 2 << 20;
  options.adaptive_readahead = true;
  options.auto_readahead_size = true;
  std::unique_ptr<rocksdb::Iterator> it(request_.db->NewIterator(options, request_.family->handle()));

  auto chunk = std::make_unique<Chunk>();
  Status status;
  bool going = true;
  uint32_t visited = 0;
  for (it->Seek(lower); going && it->Valid(); it->Next()) {
    const rocksdb::Slice row = it->value();
    if (request_.predicate != nullptr) {
      bool row_passes = false;
      status = passes(it->key().ToStringView(), row.ToStringView(), &row_passes);
      if (!status.ok()) break;
      if (!row_passes) {
        // Nothing to hand over for long: still look whether the scan was abandoned.
        if ((++visited & 0xFFF) == 0) {
          std::lock_guard<std::mutex> guard(mutex_);
          going = !stop_;
        }
        continue;
      }
    }
    const rocksdb::Slice key = it->key();
    chunk->bytes.append(key.data(), key.size());
    const auto key_end = static_cast<uint32_t>(chunk->bytes.size());
    chunk->bytes.append(row.data(), row.size());
    chunk->entries.push_back({key_end, static_cast<uint32_t>(chunk->bytes.size())});
    if (chunk->bytes.size() >= kChunkBytes) {
      going = hand_over(index, std::move(chunk));
      chunk = std::make_unique<Chunk>();
    }
  }
  if (status.ok() && !it->status().ok()) status = lsm::from_rocksdb(it->status());
  if (going && !chunk->entries.empty()) hand_over(index, std::move(chunk));
  std::lock_guard<std::mutex> guard(mutex_);
  piece.done = true;
  piece.status = status;
  consumer_.notify_one();
}

Status ParallelScan::passes(std::string_view key, std::string_view stored, bool *passes) const {
  codec::Truth truth = codec::Truth::kFalse;
  std::string buffer;
  if (codec::is_large_row(stored)) ATOLL_RETURN_IF_ERROR(request_.whole_row(key, stored, &buffer, &stored));
  if (request_.predicate->try_evaluate(*request_.row, stored, &truth) != Code::kOk)
    return request_.predicate->evaluate(*request_.row, stored, &truth);
  *passes = truth == codec::Truth::kTrue;
  return Status::Ok();
}

bool ParallelScan::hand_over(size_t index, std::unique_ptr<Chunk> chunk) {
  Piece &piece = pieces_[index];
  std::unique_lock<std::mutex> guard(mutex_);
  producers_.wait(guard, [&] { return stop_ || piece.queued_bytes < kPieceBytesMax; });
  if (stop_) return false;
  piece.queued_bytes += chunk->bytes.size();
  piece.chunks.push_back(std::move(chunk));
  if (index == current_piece_) consumer_.notify_one();
  return true;
}

Status ParallelScan::next(std::string_view *key, std::string_view *row, bool *end, bool *waiting) {
  *end = false;
  *waiting = false;
  while (!chunk_ || chunk_entry_ >= chunk_->entries.size()) {
    std::unique_lock<std::mutex> guard(mutex_);
    Piece &piece = pieces_[current_piece_];
    const bool ready = consumer_.wait_for(guard, std::chrono::milliseconds(100),
                                          [&] { return !piece.chunks.empty() || piece.done; });
    if (!ready) {
      *waiting = true;
      return Status::Ok();
    }
    if (!piece.chunks.empty()) {
      chunk_ = std::move(piece.chunks.front());
      piece.chunks.pop_front();
      piece.queued_bytes -= chunk_->bytes.size();
      chunk_entry_ = 0;
      producers_.notify_all();
      continue;
    }
    if (!piece.status.ok()) return piece.status;
    if (++current_piece_ == pieces_.size()) {
      current_piece_--;  // stays at the last, finished piece
      *end = true;
      return Status::Ok();
    }
  }
  const uint32_t begin = chunk_entry_ == 0 ? 0 : chunk_->entries[chunk_entry_ - 1].row_end;
  const Chunk::Entry &entry = chunk_->entries[chunk_entry_++];
  *key = std::string_view(chunk_->bytes).substr(begin, entry.key_end - begin);
  *row = std::string_view(chunk_->bytes).substr(entry.key_end, entry.row_end - entry.key_end);
  return Status::Ok();
}

}  // namespace atoll::handler
