#include "lsm/load/sorted_file_writer.h"

#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/border/border.h"
#include "base/interrupt.h"
#include "base/threads/start_threads.h"
#include "bridge/result.h"
#include "lsm/family.h"

namespace atoll::lsm {
namespace {

// Large enough that passing a chunk to the writing thread costs nearly nothing per row, and small enough that
// a chunk stays in the processor's cache.
constexpr size_t kChunkBytes = 512 * 1024;
// While this many chunks wait for the writing thread, the adding thread waits, too.
constexpr size_t kQueuedChunksMax = 16;
// How often the adding thread asks whether it was interrupted, while it waits for the writing thread.
constexpr auto kInterruptInterval = std::chrono::milliseconds(100);
// The number of rows between two calls of SstFileWriter::FileSize().
constexpr uint64_t kRowsPerSizeCheck = 256;

}  // namespace

// ---- RowChunk ------------------------------------------------------------------------------------

void RowChunk::add(std::string_view key, std::string_view value) {
  const uint32_t lengths[2] = {static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  bytes_.append(reinterpret_cast<const char *>(lengths), sizeof(lengths));
  bytes_.append(key);
  bytes_.append(value);
}

template <typename Each>
bool RowChunk::for_each(Each each) const {
  const char *position = bytes_.data();
  const char *const end = position + bytes_.size();
  while (position < end) {
    uint32_t lengths[2];
    std::memcpy(lengths, position, sizeof(lengths));
    position += sizeof(lengths);
    const rocksdb::Slice key(position, lengths[0]);
    const rocksdb::Slice value(position + lengths[0], lengths[1]);
    position += lengths[0] + lengths[1];
    if (!each(key, value)) return false;
  }
  return true;
}

// ---- SortedFileWriter ----------------------------------------------------------------------------

SortedFileWriter::SortedFileWriter(Settings settings)
    : settings_(std::move(settings)), filling_(kChunkBytes) {
  if (start_threads(&thread_, 1, [this](size_t) { run(); }) == 0)
    fail(Status(Code::kNoMemory, "the server process got no thread to write table files with"));
}

SortedFileWriter::~SortedFileWriter() { stop(); }

void SortedFileWriter::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread &thread : std::exchange(thread_, {})) thread.join();
}

Status SortedFileWriter::add(std::string_view key, std::string_view value) {
  if (!filling_.fits(key.size(), value.size())) ATOLL_RETURN_IF_ERROR(push_chunk());
  filling_.add(key, value);
  if (!failed_.load(std::memory_order_relaxed)) return Status::Ok();
  MutexLock lock(mutex_);
  return status_;
}

Status SortedFileWriter::push_chunk() {
  MutexLock lock(mutex_);
  const auto has_room = [this]() ATOLL_REQUIRES(mutex_) {
    return queue_.size() < kQueuedChunksMax || failed_.load();
  };
  while (!changed_.wait_for(lock, kInterruptInterval, has_room)) {
    if (is_interrupted()) return Status(Code::kInterrupted, "the load was interrupted");
  }
  queue_.push_back(std::move(filling_));
  filling_ = RowChunk(kChunkBytes);
  changed_.notify_all();
  return Status::Ok();
}

Status SortedFileWriter::finish() {
  if (!filling_.empty()) ATOLL_RETURN_IF_ERROR(push_chunk());
  {
    MutexLock lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  for (std::thread &thread : std::exchange(thread_, {})) thread.join();
  const MutexLock lock(mutex_);
  return status_;
}

void SortedFileWriter::fail(const Status &status) {
  MutexLock lock(mutex_);
  status_ = status;
  failed_.store(true);
  changed_.notify_all();
}

void SortedFileWriter::run() {
  Status status;
  while (status.ok()) {
    MutexLock lock(mutex_);
    changed_.wait(lock,
                  [this]() ATOLL_REQUIRES(mutex_) { return !queue_.empty() || finishing_ || stopping_; });
    if (stopping_) break;
    if (queue_.empty()) {
      lock.unlock();
      status = guarded([this] { return finish_file(), Status::Ok(); });
      break;
    }
    const RowChunk chunk = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    lock.unlock();
    status = guarded([&] { return write_chunk(chunk); });
  }
  if (const Status finished = wait_finished(); status.ok()) status = finished;
  if (!status.ok()) fail(status);
}

Status SortedFileWriter::open_file() {
  char number[16];
  std::snprintf(number, sizeof(number), "%06zu", paths_.size() + 1);
  paths_.push_back(settings_.path_prefix + number + ".sst");
  // The file stays in the page cache, because the upload and the first queries soon read it.
  file_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(settings_.file_options),
                                                   settings_.file_options, nullptr,
                                                   /*invalidate_page_cache=*/false);
  until_size_check_ = kRowsPerSizeCheck;
  return from_rocksdb(file_->Open(paths_.back()));
}

// Syncs the full file and passes it to the store in the background, while the next file is already written.
void SortedFileWriter::finish_file() {
  if (file_ == nullptr) return;
  const size_t index = paths_.size() - 1;
  const std::shared_ptr<rocksdb::SstFileWriter> file = std::move(file_);
  const auto finish = [this, index, file] {
    return guarded([&] { return finish_in_background(file.get(), index); });
  };
  finishing_files_.push_back(std::async(kOwnThreadIfPossible, finish));
}

Status SortedFileWriter::finish_in_background(rocksdb::SstFileWriter *file, size_t index) {
  auto file_summary = std::make_shared<rocksdb::ExternalSstFileInfo>();
  const rocksdb::Status finished = file->Finish(file_summary.get());
  if (!finished.ok()) return from_rocksdb(finished);
  const std::string path = file_summary->file_path;
  {
    MutexLock lock(mutex_);
    infos_.resize(std::max(infos_.size(), index + 1));
    infos_[index] = std::move(file_summary);
  }
  if (settings_.store == nullptr) return Status::Ok();
  const InterruptScope interrupt(settings_.abort);
  return bridge::to_status(atoll_store_stage_file(settings_.store, path.c_str()));
}

Status SortedFileWriter::wait_finished() {
  Status status;
  for (std::future<Status> &file : finishing_files_) {
    const Status finished = file.get();
    if (status.ok()) status = finished;
  }
  finishing_files_.clear();
  return status;
}

Status SortedFileWriter::write_chunk(const RowChunk &chunk) {
  Status status;
  chunk.for_each([&](const rocksdb::Slice &key, const rocksdb::Slice &value) {
    if (file_ == nullptr) {
      // At most two full files are synced and uploaded at a time. If the disk or the bucket is slow, the
      // writing thread waits here for the older one.
      if (finishing_files_.size() == 2) {
        status = finishing_files_.front().get();
        finishing_files_.pop_front();
      }
      if (status.ok()) status = open_file();
    }
    if (!status.ok()) return false;
    const rocksdb::Status put = file_->Put(key, value);
    if (!put.ok()) {
      status = from_rocksdb(put);
      return false;
    }
    if (--until_size_check_ == 0) {
      until_size_check_ = kRowsPerSizeCheck;
      if (file_->FileSize() >= settings_.file_bytes) finish_file();
    }
    return true;
  });
  return status;
}

}  // namespace atoll::lsm
