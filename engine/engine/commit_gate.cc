// See commit_gate.h.
#include "engine/commit_gate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/messages/reason_first.h"
#include "bridge/result.h"
#include "engine/bucket_waits.h"

namespace atoll::engine {
namespace {

// The time between two checks for KILL, while a statement waits for the bucket.
constexpr uint32_t kSliceMs = 500;
// The time between two checks whether the upload backlog has room. Waiting commits go on at most this long
// after it has room again.
constexpr auto kBacklogInterval = std::chrono::milliseconds(50);
// What a message says about a change whose wait for the bucket has ended early.
constexpr char kIsDone[] =
    "the change is done and must not be repeated: it is on local disk, and the bucket gets it later";

// Says how far the bucket lags behind the local disk, and which error of the bucket was the last.
std::string lag_text(const atoll_store *store) {
  atoll_store_stats stats{};
  atoll_store_get_stats(store, &stats);
  const std::string last_error = reason_first(bridge::text_of(stats.last_error));
  return "the bucket is " + std::to_string(stats.wal_lag_ms) + " ms and " +
         std::to_string(stats.wal_lag_bytes) + " bytes of log behind" +
         (last_error.empty() ? "" : ". Last error: " + last_error);
}

// Returns why the statement of this thread must stop waiting; nullptr: it may go on.
const char *why_wait_ends() {
  if (is_interrupted()) return "the wait for the bucket was interrupted";
  if (BucketWaits::of_process().is_out_of_time())
    return "the wait for the bucket has reached max_statement_time";
  return nullptr;
}

// What a statement waits for.
struct Waited {
  uint64_t position;    // in the log; 0: the wait of this statement is no sign of an outage
  const char *outcome;  // what the message of an error says about the statement's changes
  std::function<atoll_result(uint32_t timeout_ms)> wait;
};

// Calls `wait` again and again, each time for at most kSliceMs, until it succeeds or fails with another error
// than kUnavailable, atoll_lag_wait_timeout has passed, or the statement must end.
Status wait_for(const Waited &waited, atoll_store *store, const Settings *settings) {
  const auto start = std::chrono::steady_clock::now();
  const uint32_t limit_ms = settings->lag_wait_timeout_s * 1000;
  const std::string outcome = std::string(waited.outcome) + ": ";
  BucketWaits &waits = BucketWaits::of_process();
  std::optional<BucketWaits::Waiter> waiter;
  for (;;) {
    const Status status = bridge::to_status(waited.wait(std::min(kSliceMs, limit_ms)));
    if (status.ok()) waits.look(store);
    if (status.code() != Code::kUnavailable) return status;
    if (!waiter) waiter.emplace(&waits);
    if (const char *why = why_wait_ends())
      return Status(Code::kInterrupted, outcome + why + "; " + lag_text(store));
    if (std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(limit_ms))
      return Status(
          Code::kUnavailable,
          outcome + "the bucket did not catch up within atoll_lag_wait_timeout; " + lag_text(store));
    if (waited.position != 0) waiter->still_waits(waited.position, [store] { return lag_text(store); });
  }
}

}  // namespace

Status CommitGate::lag_message(const char *what_happened) const {
  return Status(Code::kUnavailable, std::string(what_happened) + ": " + lag_text(store_));
}

Status CommitGate::wait_in_slices(const std::function<atoll_result(uint32_t timeout_ms)> &wait) const {
  return wait_for({0, "all changes are kept on local disk", wait}, store_, settings_);
}

Status CommitGate::publish_all() const {
  if (store_ == nullptr) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(rows_->sync_wal().with("syncing the log"));
  return wait_in_slices([&](uint32_t timeout_ms) { return atoll_store_publish(store_, timeout_ms); });
}

Status CommitGate::before_commit(bool is_spilled) const {
  if (store_ == nullptr) return Status::Ok();
  const BucketWaits &waits = BucketWaits::of_process();
  if (waits.is_outage() && settings_->durability != ATOLL_DURABILITY_LOCAL) {
    const auto wait = [&](uint32_t timeout_ms) {
      return atoll_store_after_commit(store_, waits.position(), timeout_ms);
    };
    ATOLL_RETURN_IF_ERROR(
        wait_for({waits.position(), "the transaction was rolled back", wait}, store_, settings_));
  }
  // The backlog is rarely full. While it is not, a commit costs only two atomic loads here.
  while (atoll_store_is_backlog_full(store_) != 0 && (is_spilled || rows_->holds_writers_back())) {
    if (is_interrupted()) return Status(Code::kInterrupted, "");
    std::this_thread::sleep_for(kBacklogInterval);
  }
  return Status::Ok();
}

Status CommitGate::after_commit(uint64_t wal_position) const {
  if (store_ == nullptr || settings_->durability == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  const auto wait = [&](uint32_t timeout_ms) {
    return atoll_store_after_commit(store_, wal_position, timeout_ms);
  };
  return wait_for({wal_position, kIsDone, wait}, store_, settings_);
}

void CommitGate::note_commit(const lsm::CommitMark &mark) const {
  if (store_ == nullptr) return;
  const lsm::Gtid gtid = mark.gtid.value_or(lsm::Gtid());
  const lsm::BinlogPosition binlog = mark.binlog.value_or(lsm::BinlogPosition());
  const uint64_t last_sequence = rows_->newest_sequence();
  atoll_store_note_commit(store_, now_us(), last_sequence, gtid.domain, gtid.server, gtid.sequence,
                          binlog.file, binlog.offset);
}

Status CommitGate::after_ddl() const {
  // The catalog's writes are synced, so with atoll_durability=local the statement is complete.
  if (store_ == nullptr || settings_->durability == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(rows_->sync_wal().with("syncing the log"));
  const uint64_t position = atoll_store_wal_position(store_);
  if (settings_->durability == ATOLL_DURABILITY_SYNC) {
    // New column families and ingested files are recorded in the MANIFEST, not in the log. So the log in the
    // bucket is not enough, and this also waits for a root that has these records.
    const auto wait = [&](uint32_t timeout_ms) {
      return atoll_store_wait_shipped(store_, position, timeout_ms);
    };
    return wait_for({position, kIsDone, wait}, store_, settings_);
  }
  const Status status = after_commit(position);
  if (status.code() != Code::kUnavailable && status.code() != Code::kInterrupted) return status;
  // The statement is done. Its steps (those of an ALTER, for example) must not be undone one by one because
  // the bucket is slow. Their bytes count in the lag, so the commits that follow wait for the bucket.
  const Status lag = lag_message("the change is kept on local disk, but the bucket did not catch up");
  log_warning(lag.message());
  warn_(lag.message());
  return Status::Ok();
}

}  // namespace atoll::engine
