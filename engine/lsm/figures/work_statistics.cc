// See work_statistics.h.
#include "lsm/figures/work_statistics.h"

#include "base/work.h"

namespace atoll::lsm {
namespace {

constexpr size_t kNone = kWorkKinds;  // stands for no WorkKind

// Returns the WorkKind that counts this ticker of RocksDB; kNone if a Work does not count it.
size_t work_of(uint32_t ticker) {
  switch (ticker) {
    case rocksdb::BLOCK_CACHE_HIT:
      return static_cast<size_t>(WorkKind::kBlocksCached);
    case rocksdb::BLOCK_CACHE_MISS:
      return static_cast<size_t>(WorkKind::kBlocksRead);
    case rocksdb::NUMBER_ITER_SKIP:
      return static_cast<size_t>(WorkKind::kEntriesHidden);
    default:
      return kNone;
  }
}

// True if DatabaseImpl::counters() shows this ticker and no Work counts it.
bool is_asked_for(uint32_t ticker) {
  switch (ticker) {
    case rocksdb::STALL_MICROS:
    case rocksdb::FLUSH_WRITE_BYTES:
    case rocksdb::COMPACT_WRITE_BYTES:
    case rocksdb::COMPACT_READ_BYTES:
    case rocksdb::WAL_FILE_SYNCED:
    case rocksdb::WAL_FILE_BYTES:
    case rocksdb::BLOOM_FILTER_USEFUL:
    case rocksdb::NO_FILE_OPENS:
      return true;
    default:
      return false;
  }
}

}  // namespace

uint64_t WorkStatistics::getTickerCount(uint32_t ticker) const {
  const size_t work = work_of(ticker);
  const uint64_t of_statements = work == kNone ? 0 : work_of_all(static_cast<WorkKind>(work));
  return of_statements + tickers_[ticker].load(std::memory_order_relaxed);
}

void WorkStatistics::recordTick(uint32_t ticker, uint64_t count) {
  const size_t work = work_of(ticker);
  if (work != kNone && current_work() != nullptr)
    current_work()->add(static_cast<WorkKind>(work), count);
  else if (work != kNone || is_asked_for(ticker))
    tickers_[ticker].fetch_add(count, std::memory_order_relaxed);
}

void WorkStatistics::setTickerCount(uint32_t ticker, uint64_t count) {
  tickers_[ticker].store(count, std::memory_order_relaxed);
}

uint64_t WorkStatistics::getAndResetTickerCount(uint32_t ticker) {
  return tickers_[ticker].exchange(0, std::memory_order_relaxed);
}

}  // namespace atoll::lsm
