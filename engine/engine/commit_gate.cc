// See commit_gate.h.
#include "engine/commit_gate.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "bridge/result.h"

namespace atoll::engine {
namespace {

// The time between two checks for KILL, while a statement waits for the bucket.
constexpr uint32_t kSliceMs = 500;
// The time between two checks whether the upload backlog has room. Waiting commits go on at most this long
// after it has room again.
constexpr auto kBacklogInterval = std::chrono::milliseconds(50);

}  // namespace

// Returns an error for the user: the change is kept on the local disk, but `what_happened`. It also says how
// far the bucket lags behind the local disk, and which error of the bucket was the last.
Status CommitGate::lag_message(const char *what_happened) const {
  atoll_store_stats stats{};
  atoll_store_get_stats(store_, &stats);
  const std::string last_error = bridge::text_of(stats.last_error);
  return Status(Code::kUnavailable, std::string("the change is kept on local disk, but ") + what_happened +
                                        ": the bucket is " + std::to_string(stats.wal_lag_ms) + " ms and " +
                                        std::to_string(stats.wal_lag_bytes) + " bytes of log behind" +
                                        (last_error.empty() ? "" : ". Last error: " + last_error));
}

// Calls `wait` again and again, each time for at most kSliceMs, until it succeeds or fails with another error
// than kUnavailable, atoll_lag_wait_timeout has passed, or the connection is killed.
Status CommitGate::wait_in_slices(const std::function<atoll_result(uint32_t timeout_ms)> &wait) const {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::milliseconds limit(settings_->lag_wait_timeout_s * 1000);
  for (;;) {
    const Status status =
        bridge::to_status(wait(std::min<uint32_t>(kSliceMs, settings_->lag_wait_timeout_s * 1000)));
    if (status.code() != Code::kUnavailable) return status;
    if (is_interrupted())
      return Status(Code::kInterrupted, lag_message("waiting for the bucket was interrupted").message());
    if (std::chrono::steady_clock::now() - start >= limit)
      return lag_message("the bucket did not catch up within atoll_lag_wait_timeout");
  }
}

Status CommitGate::publish_all() const {
  ATOLL_RETURN_IF_ERROR(rows_->sync_wal().with("syncing the log"));
  return wait_in_slices([&](uint32_t timeout_ms) { return atoll_store_publish(store_, timeout_ms); });
}

Status CommitGate::before_commit(bool is_spilled) const {
  // The backlog is rarely full. While it is not, a commit costs only one atomic load here.
  while (atoll_store_is_backlog_full(store_) != 0 && (is_spilled || rows_->holds_writers_back())) {
    if (is_interrupted()) return Status(Code::kInterrupted, "");
    std::this_thread::sleep_for(kBacklogInterval);
  }
  return Status::Ok();
}

Status CommitGate::after_commit(uint64_t wal_position) const {
  if (settings_->durability == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  return wait_in_slices(
      [&](uint32_t timeout_ms) { return atoll_store_after_commit(store_, wal_position, timeout_ms); });
}

void CommitGate::note_commit(const lsm::CommitMark &mark) const {
  const lsm::Gtid gtid = mark.gtid.value_or(lsm::Gtid());
  const lsm::BinlogPosition binlog = mark.binlog.value_or(lsm::BinlogPosition());
  const uint64_t last_sequence = rows_->newest_sequence();
  atoll_store_note_commit(store_, now_us(), last_sequence, gtid.domain, gtid.server, gtid.sequence,
                          binlog.file, binlog.offset);
}

Status CommitGate::after_ddl() const {
  // The catalog's writes are synced, so with atoll_durability=local the statement is complete.
  if (settings_->durability == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(rows_->sync_wal().with("syncing the log"));
  const uint64_t position = atoll_store_wal_position(store_);
  if (settings_->durability == ATOLL_DURABILITY_SYNC) {
    // New column families and ingested files are recorded in the MANIFEST, not in the log. So the log in the
    // bucket is not enough, and this also waits for a root that has these records.
    return wait_in_slices(
        [&](uint32_t timeout_ms) { return atoll_store_wait_shipped(store_, position, timeout_ms); });
  }
  const Status status = after_commit(position);
  if (status.code() != Code::kUnavailable && status.code() != Code::kInterrupted) return status;
  // The statement is done. Its steps (those of an ALTER, for example) must not be undone one by one because
  // the bucket is slow. Their bytes count in the lag, so the commits that follow wait for the bucket.
  log_warning(status.message());
  warn_(status.message());
  return Status::Ok();
}

}  // namespace atoll::engine
