// Collects RocksDB's statistics, but only those that a view or variable shows.
//
// RocksDB reports some forty events for each read, and its own collector looks up the current core for each
// event. WorkStatistics drops the events that no view or variable shows. It counts the events that belong to
// a statement in the Work of the thread (base/work.h), and all others in one array. There are no histograms:
// their timers would read the clock twice for each lookup.
#pragma once

#include <rocksdb/statistics.h>

#include <array>
#include <atomic>
#include <memory>

namespace atoll::lsm {

class WorkStatistics final : public rocksdb::Statistics {
 public:
  WorkStatistics() { set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers); }

  const char *Name() const override { return "AtollWorkStatistics"; }
  // Returns the ticker's total. For a ticker that statements count in their Work, this is the sum over all
  // Work objects, plus the events of threads that have no Work.
  uint64_t getTickerCount(uint32_t ticker) const override;
  void recordTick(uint32_t ticker, uint64_t count) override;
  void setTickerCount(uint32_t ticker, uint64_t count) override;
  uint64_t getAndResetTickerCount(uint32_t ticker) override;
  void histogramData(uint32_t, rocksdb::HistogramData *const) const override {}
  void recordInHistogram(uint32_t, uint64_t) override {}
  bool HistEnabledForType(uint32_t) const override { return false; }

 private:
  std::array<std::atomic<uint64_t>, rocksdb::TICKER_ENUM_MAX> tickers_{};
};

}  // namespace atoll::lsm
