#include "lsm/load/bulk_load.h"

#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/border/border.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/threads/start_threads.h"
#include "bridge/result.h"
#include "lsm/load/external_sort.h"
#include "lsm/options.h"
#include "lsm/load/sorted_file_writer.h"

namespace atoll::lsm {
namespace {

namespace fs = std::filesystem;

constexpr auto kProgressInterval = std::chrono::milliseconds(100);
// The length of one wait for the bucket. Between two such waits, the load asks whether the user interrupts
// it.
constexpr uint32_t kShipWaitMs = 250;
// Without a progress callback no user can interrupt the waiting, so the load gives up after this time.
constexpr auto kShipWaitMax = std::chrono::seconds(120);
// The part of the reported progress that is for sorting and writing; the last part is for waiting for the
// bucket.
constexpr double kWriteShare = 0.9;

struct Stream {
  bool presorted = false;
  StreamKind kind = StreamKind::kSought;
  BulkLoad::UniqueLength unique_length;
  std::unique_ptr<ExternalSort> sort;        // only of an unsorted stream
  std::unique_ptr<SortedFileWriter> writer;  // made when the first sorted row comes
  // The last row that was written; check_order() compares the next row with it.
  bool has_last = false;  // false: no row was written yet
  std::string last_key;
  size_t last_unique_bytes = 0;  // how many bytes of last_key must be unique; 0: none
};

class BulkLoadImpl final : public BulkLoad {
 public:
  explicit BulkLoadImpl(BulkLoadSettings settings);
  ~BulkLoadImpl() override;

  using BulkLoad::add;
  using BulkLoad::add_stream;
  size_t add_stream(bool presorted, UniqueLength unique_length, StreamKind kind, size_t adders) override;
  Status add(size_t stream, std::string_view key, std::string_view value, size_t adder) override;
  Status ingest(const std::function<bool(double)> &progress) override;
  void write_few_to_log() override { writes_few_to_log_ = true; }
  bool is_for_log() const override;
  bool has_ingested() const override { return ingested_; }
  Status wait_for_bucket(const std::function<bool(double)> &progress) override;
  // Called after ingest(), when no thread of the load runs that could change the results.
  size_t duplicate_stream() const override { return duplicate_stream_; }
  std::string_view duplicate_key() const override ATOLL_UNCHECKED_THREADS { return duplicate_key_; }
  std::string_view duplicate_value() const override ATOLL_UNCHECKED_THREADS { return duplicate_value_; }

 private:
  Status write_sorted(size_t number, std::string_view key, std::string_view value);
  Status check_order(size_t number, std::string_view key, std::string_view value);
  Status duplicate(size_t number, std::string_view key, std::string_view value);
  Status finish_stream(size_t number);
  Status finish_streams(const std::function<bool(double)> &progress);
  void finish_next_streams(std::atomic<size_t> *next);
  void wait_for_workers(const std::atomic<size_t> &finished, size_t workers, uint64_t rows,
                        const std::function<bool(double)> &progress);
  bool is_stopped(size_t number) const { return abort_.load() || number >= duplicate_stream_.load(); }
  void remember(const Status &status);
  void remove_files();
  Status ingest_files();
  Status write_to_log();
  uint64_t unsorted_rows() const;
  SortedFileWriter *writer(size_t number);

  const BulkLoadSettings settings_;
  std::vector<std::unique_ptr<Stream>> streams_;
  bool ingested_ = false;  // true: the rows are in the family
  bool writes_few_to_log_ = false;
  rocksdb::WriteBatch *log_batch_ = nullptr;  // set while rows are collected for the log

  std::atomic<bool> abort_{false};         // true: all threads of the load stop
  std::atomic<uint64_t> rows_written_{0};  // for the reported progress
  Mutex result_mutex_;
  Status result_ ATOLL_GUARDED_BY(result_mutex_);  // the first failure
  // The number of the first stream that has a duplicate. This stream and later streams stop; earlier streams
  // go on. When a row comes twice, its index entries come twice too, but the duplicate to report is that of
  // the row, whose stream comes first.
  std::atomic<size_t> duplicate_stream_{SIZE_MAX};
  std::string duplicate_key_ ATOLL_GUARDED_BY(result_mutex_);
  std::string duplicate_value_ ATOLL_GUARDED_BY(result_mutex_);
};

BulkLoadImpl::BulkLoadImpl(BulkLoadSettings settings) : settings_(std::move(settings)) {}

BulkLoadImpl::~BulkLoadImpl() {
  abort_.store(true);
  for (const auto &stream : streams_) {
    stream->sort.reset();
    if (stream->writer != nullptr) stream->writer->stop();
  }
  guarded_or_nothing([this] { remove_files(); });  // the next open removes files that are left
}

void BulkLoadImpl::remove_files() {
  for (const auto &stream : streams_) {
    if (stream->writer == nullptr || settings_.store == nullptr || ingested_) continue;
    for (const std::string &path : stream->writer->paths()) {
      atoll_store_unstage_file(settings_.store, path.c_str());
    }
  }
  (void)remove_tree(settings_.directory);
}

// ---- adding rows ---------------------------------------------------------------------------------

size_t BulkLoadImpl::add_stream(bool presorted, UniqueLength unique_length, StreamKind kind, size_t adders) {
  std::error_code ignored;  // if the directory is missing, opening the first file fails
  fs::create_directories(settings_.directory, ignored);
  auto stream = std::make_unique<Stream>();
  stream->presorted = presorted;
  stream->kind = kind;
  stream->unique_length = std::move(unique_length);
  const std::string prefix = settings_.directory + "/s" + std::to_string(streams_.size()) + "-";
  if (!presorted) stream->sort = std::make_unique<ExternalSort>(settings_.sort_budget, prefix, adders);
  streams_.push_back(std::move(stream));
  return streams_.size() - 1;
}

Status BulkLoadImpl::add(size_t number, std::string_view key, std::string_view value, size_t adder) {
  Stream &stream = *streams_[number];
  if (!stream.presorted) return stream.sort->add(key, value, adder);
  return write_sorted(number, key, value);
}

SortedFileWriter *BulkLoadImpl::writer(size_t number) {
  Stream &stream = *streams_[number];
  if (stream.writer == nullptr) {
    SortedFileWriter::Settings settings;
    settings.file_options = settings_.file_options[static_cast<size_t>(stream.kind)];
    settings.path_prefix = settings_.directory + "/s" + std::to_string(number) + "-";
    settings.file_bytes = settings_.file_bytes != 0 ? settings_.file_bytes : kBulkFileBytes;
    settings.store = settings_.store;
    settings.abort = &abort_;
    stream.writer = std::make_unique<SortedFileWriter>(std::move(settings));
  }
  return stream.writer.get();
}

Status BulkLoadImpl::write_sorted(size_t number, std::string_view key, std::string_view value) {
  ATOLL_RETURN_IF_ERROR(check_order(number, key, value));
  if (log_batch_ == nullptr) return writer(number)->add(key, value);
  const rocksdb::Slice key_bytes(key.data(), key.size()), value_bytes(value.data(), value.size());
  return from_rocksdb(log_batch_->Put(settings_.family->handle(), key_bytes, value_bytes));
}

// Compares the key with the previous key. That finds every duplicate, because the unique part is a prefix of
// the key, so that rows with the same unique part follow each other.
Status BulkLoadImpl::check_order(size_t number, std::string_view key, std::string_view value) {
  Stream &stream = *streams_[number];
  const size_t unique_bytes = stream.unique_length ? std::min(stream.unique_length(key), key.size()) : 0;
  if (stream.has_last) {
    const std::string_view last = stream.last_key;
    const int order = last.compare(key);
    if (order == 0) return duplicate(number, key, value);
    if (order > 0) return Status(Code::kBug, "rows of a presorted stream came out of order");
    const bool both_unique = unique_bytes != 0 && unique_bytes == stream.last_unique_bytes;
    if (both_unique && last.substr(0, unique_bytes) == key.substr(0, unique_bytes)) {
      return duplicate(number, key, value);
    }
  }
  stream.has_last = true;
  stream.last_key.assign(key);
  stream.last_unique_bytes = unique_bytes;
  return Status::Ok();
}

Status BulkLoadImpl::duplicate(size_t number, std::string_view key, std::string_view value) {
  MutexLock lock(result_mutex_);
  if (number < duplicate_stream_) {
    duplicate_stream_ = number;
    duplicate_key_.assign(key);
    duplicate_value_.assign(value);
  }
  return Status(Code::kDuplicate, "");
}

// ---- sorting and writing the rest ----------------------------------------------------------------

Status BulkLoadImpl::ingest(const std::function<bool(double)> &progress) {
  if (is_for_log()) return write_to_log();
  ATOLL_RETURN_IF_ERROR(finish_streams(progress));
  return ingest_files();
}

bool BulkLoadImpl::is_for_log() const { return writes_few_to_log_ && unsorted_rows() <= kFewRows; }

uint64_t BulkLoadImpl::unsorted_rows() const {
  uint64_t rows = 0;
  for (const auto &stream : streams_) rows += stream->sort ? stream->sort->rows() : 0;
  return rows;
}

// Starts no threads, because that would take longer than to sort a few rows.
Status BulkLoadImpl::write_to_log() {
  rocksdb::WriteBatch batch;
  log_batch_ = &batch;
  std::atomic<size_t> next{0};
  finish_next_streams(&next);
  log_batch_ = nullptr;
  {
    const MutexLock lock(result_mutex_);
    if (!result_.ok()) return result_;
  }
  return batch.Count() == 0 ? Status::Ok() : settings_.rows->write_unlocked(&batch, false);
}

Status BulkLoadImpl::finish_streams(const std::function<bool(double)> &progress) {
  const size_t wanted = std::min(std::max<size_t>(settings_.threads, 1), streams_.size());
  // Counted before the workers start, because they delete finished sorts. Starts with 1, because the progress
  // is divided by it.
  const uint64_t rows = 1 + unsorted_rows();
  std::atomic<size_t> next{0};
  std::atomic<size_t> finished{0};
  std::vector<std::thread> threads;
  const size_t workers = start_threads(&threads, wanted, [&](size_t) {
    finish_next_streams(&next);
    finished.fetch_add(1);
  });
  if (workers == 0) finish_next_streams(&next);  // no thread started; no progress is reported
  wait_for_workers(finished, workers, rows, progress);
  for (std::thread &thread : threads) thread.join();
  MutexLock lock(result_mutex_);
  return result_;
}

void BulkLoadImpl::wait_for_workers(const std::atomic<size_t> &finished, size_t workers, uint64_t rows,
                                    const std::function<bool(double)> &progress) {
  auto next_report = std::chrono::steady_clock::now();
  while (finished.load() < workers) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!progress || std::chrono::steady_clock::now() < next_report) continue;
    next_report = std::chrono::steady_clock::now() + kProgressInterval;
    const double done = static_cast<double>(rows_written_.load()) / static_cast<double>(rows);
    if (!progress(kWriteShare * std::min(done, 1.0))) {
      abort_.store(true);
      remember(Status(Code::kInterrupted, "the bulk load was interrupted"));
    }
  }
}

void BulkLoadImpl::finish_next_streams(std::atomic<size_t> *next) {
  for (;;) {
    const size_t number = next->fetch_add(1);
    if (number >= streams_.size() || is_stopped(number)) return;
    const Status status = guarded([&] { return finish_stream(number); });
    if (status.ok()) continue;
    remember(status);
    if (status.code() != Code::kDuplicate) abort_.store(true);
  }
}

void BulkLoadImpl::remember(const Status &status) {
  MutexLock lock(result_mutex_);
  if (result_.ok()) result_ = status;
}

Status BulkLoadImpl::finish_stream(size_t number) {
  Stream &stream = *streams_[number];
  if (stream.sort != nullptr) {
    uint64_t unreported = 0;
    const auto is_aborted = [this, number] { return is_stopped(number); };
    const auto write = [&](std::string_view key, std::string_view value) {
      if (++unreported == 1024) {
        rows_written_.fetch_add(unreported, std::memory_order_relaxed);
        unreported = 0;
        if (is_aborted()) return Status(Code::kInterrupted, "aborted");
      }
      return write_sorted(number, key, value);
    };
    ATOLL_RETURN_IF_ERROR(stream.sort->merge(write, is_aborted));
    stream.sort.reset();
  }
  return stream.writer ? stream.writer->finish() : Status::Ok();
}

// ---- ingesting the files -------------------------------------------------------------------------

Status BulkLoadImpl::ingest_files() {
  rocksdb::IngestExternalFileArg argument;
  std::vector<std::shared_ptr<const rocksdb::ExternalSstFileInfo>> summaries;
  for (const auto &stream : streams_) {
    if (stream->writer == nullptr) continue;
    for (const std::string &path : stream->writer->paths()) argument.external_files.push_back(path);
    for (const auto &summary : stream->writer->infos()) summaries.push_back(summary);
  }
  if (argument.external_files.empty()) return Status::Ok();
  for (const auto &summary : summaries) argument.file_infos.push_back(summary->prepared_file_info.get());
  argument.column_family = settings_.family->handle();
  argument.options.link_files = true;  // the file system binds the staged object to the new file number
  argument.options.failed_move_fall_back_to_copy = false;
  argument.options.write_global_seqno = false;
  // With snapshot consistency, RocksDB would give the files a sequence number while snapshots exist. The
  // number would hide the load from these snapshots. But when the snapshots are gone, RocksDB would compact
  // the files again, because files of the last level should have no sequence number. So the files get no
  // number, and the caller keeps readers with older snapshots away.
  argument.options.snapshot_consistency = false;
  argument.options.fill_cache = false;
  const rocksdb::Status status = settings_.db->IngestExternalFiles({argument});
  if (!status.ok()) return from_rocksdb(status).with("taking in the files of a bulk load");
  ingested_ = true;
  if (settings_.store != nullptr) atoll_store_note_ddl(settings_.store);
  return Status::Ok();
}

Status BulkLoadImpl::wait_for_bucket(const std::function<bool(double)> &progress) {
  if (settings_.store == nullptr || !ingested_) return Status::Ok();
  const uint64_t position = atoll_store_wal_position(settings_.store);
  const auto deadline = std::chrono::steady_clock::now() + kShipWaitMax;
  for (;;) {
    const auto started = std::chrono::steady_clock::now();
    const Status status = bridge::to_status(atoll_store_wait_shipped(settings_.store, position, kShipWaitMs));
    if (status.code() != Code::kUnavailable) return status;
    if (progress && !progress(kWriteShare)) {
      return Status(Code::kInterrupted, "interrupted while waiting for the bucket");
    }
    if (!progress && std::chrono::steady_clock::now() > deadline) return status;
    std::this_thread::sleep_until(started + kProgressInterval);  // no busy loop if answers come at once
  }
}

}  // namespace

std::unique_ptr<BulkLoad> make_bulk_load(BulkLoadSettings settings) {
  return std::make_unique<BulkLoadImpl>(std::move(settings));
}

std::string bulk_directory(const std::string &database_directory) { return database_directory + "/bulk"; }

}  // namespace atoll::lsm
