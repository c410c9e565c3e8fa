// A full scan by several threads. The range is cut into pieces. The threads take the pieces in order, and
// test each packed row against the predicate. The rows that pass are handed over to the caller in key order,
// or the threads themselves call the caller's function with them (Request::take).
//
// Memory is bounded. A thread waits when kPieceBytesMax of rows of its piece are queued for the caller. It
// also waits when kQueuedBytesMax of all pieces are queued, except the thread of the piece that the caller
// reads now. Only for reads at a snapshot by a transaction without own writes.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/work.h"
#include "codec/predicate.h"
#include "codec/row_codec.h"
#include "lsm/family.h"
#include "txn/reads/entry_list.h"

namespace atoll::table {

class ParallelScan {
 public:
  struct Request {
    lsm::Family *family = nullptr;
    const rocksdb::Snapshot *snapshot = nullptr;
    std::string begin, end;
    std::vector<std::string> splits;  // the keys at which pieces begin; ascending, inside (begin, end)
    size_t threads = 2;
    const codec::Predicate *predicate = nullptr;  // may be null: all rows pass
    const codec::RowCodec *row = nullptr;
    // Returns the whole row of a stored value (whole_row_at()). Called for rows in pieces, to test the
    // predicate.
    std::function<Status(std::string_view key, std::string_view stored, std::string *buffer,
                         std::string_view *row)>
        whole_row;
    // If set, the threads call this function with each row as it is stored, and the caller uses wait() in
    // place of next(). `thread` is from 0 to thread_count() - 1. Each thread gets its rows in ascending
    // order. An error ends the scan.
    std::function<Status(size_t thread, std::string_view key, std::string_view stored)> take;
  };

  explicit ParallelScan(Request request);
  ~ParallelScan();  // stops the threads and waits for their end

  // The number of threads of a scan: at most one for each piece.
  static size_t thread_count(const Request &request);

  // Waits until Request::take has got all rows, but not longer than 100 ms, so that the caller can check
  // whether its statement was killed. *end: whether all rows have been taken. Errors: the first error of
  // reading or of `take`.
  Status wait(bool *end);

  // Gives the next row as it is stored; it is valid until the next call. *end: true when there are no more
  // rows. Errors: as a read; kNoMemory, also from wait(): the process got no memory, or no thread at
  // all. Blocks: until a row is there. After 100 ms without a row it returns kOk and sets *waiting, so that
  // the caller can check whether its statement was killed.
  Status next(std::string_view *key, std::string_view *row, bool *end, bool *waiting);

  // The largest number of bytes of rows that were queued for the caller at one time. Call after the end.
  size_t queued_bytes_most() const {
    const MutexLock guard(mutex_);
    return queued_bytes_most_;
  }
  static constexpr size_t kPieceBytesMax = 8 << 20;
  static constexpr size_t kQueuedBytesMax = 16 << 20;

 private:
  using Chunk = txn::EntryList;  // rows with their keys, which a thread hands over together
  struct Piece {
    Piece() = default;
    Piece(const Piece &) = delete;
    std::string begin, end;
    std::deque<std::unique_ptr<Chunk>> chunks;
    size_t queued_bytes = 0;
    bool done = false;
    Status status;
  };

  void work(size_t thread);
  void fail_without_threads() ATOLL_REQUIRES(mutex_);
  bool take_piece(size_t *index);  // false: there is no piece left, or the scan must stop
  Status scan_piece(size_t thread, size_t index);
  Status passes(std::string_view key, std::string_view stored, bool *passes) const;
  void collect(size_t index, std::string_view key, std::string_view row, std::unique_ptr<Chunk> *chunk);
  bool may_queue(size_t index) const ATOLL_REQUIRES(mutex_);
  void hand_over(size_t index, std::unique_ptr<Chunk> chunk);  // drops the chunk if the scan must stop
  void finish_piece(size_t index, const Status &status);

  static constexpr size_t kChunkBytes = 64 << 10;

  Request request_;
  std::deque<Piece> pieces_;
  mutable Mutex mutex_;
  Condition consumer_, producers_;
  size_t next_piece_ ATOLL_GUARDED_BY(mutex_) = 0;     // the next piece that a thread will take
  size_t current_piece_ ATOLL_GUARDED_BY(mutex_) = 0;  // the piece whose rows the caller reads now
  size_t queued_bytes_ ATOLL_GUARDED_BY(mutex_) = 0;
  size_t queued_bytes_most_ ATOLL_GUARDED_BY(mutex_) = 0;
  size_t threads_running_ ATOLL_GUARDED_BY(mutex_) = 0;
  Status failure_ ATOLL_GUARDED_BY(mutex_);  // the first error of `take` or of reading
  std::atomic<bool> stop_{false};
  Work helped_ ATOLL_GUARDED_BY(mutex_);  // the work of threads that have ended; goes into the caller's
  std::unique_ptr<Chunk> chunk_;
  size_t chunk_entry_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace atoll::table
