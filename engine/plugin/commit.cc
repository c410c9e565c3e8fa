// What a commit and a DDL statement wait for: the bucket, as far as atoll_durability says.
#include "handler/server.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/interrupt.h"
#include "bridge/result.h"
#include "plugin/instance.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {
namespace {

// KILL is looked at this often while waiting.
constexpr uint32_t kSliceMs = 500;
// Between two looks whether the upload backlog has room: commits go on this soon after it has.
constexpr auto kBacklogInterval = std::chrono::milliseconds(50);

// Written for the person who sees it: how far behind, what limits it, why.
Status lag_message(const char *what_happened) {
  atoll_store_stats stats{};
  atoll_store_get_stats(instance()->store, &stats);
  const std::string last_error(stats.last_error, strnlen(stats.last_error, sizeof(stats.last_error)));
  return Status(Code::kUnavailable, std::string("the change is kept on local disk, but ") + what_happened +
                                        ": the bucket is " + std::to_string(stats.wal_lag_ms) + " ms and " +
                                        std::to_string(stats.wal_lag_bytes) + " bytes of log behind" +
                                        (last_error.empty() ? "" : ". Last error: " + last_error));
}

// Calls `wait` in slices until it succeeds, fails for good, times out or the connection is killed.
Status wait_in_slices(const std::function<atoll_result(uint32_t timeout_ms)> &wait) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::milliseconds limit(lag_wait_timeout_ms());
  for (;;) {
    const Status status = bridge::to_status(wait(std::min(kSliceMs, lag_wait_timeout_ms())));
    if (status.code() != Code::kUnavailable) return status;
    if (is_interrupted())
      return Status(Code::kInterrupted, lag_message("waiting for the bucket was interrupted").message());
    if (std::chrono::steady_clock::now() - start >= limit)
      return lag_message("the bucket did not catch up within atoll_lag_wait_timeout");
  }
}

}  // namespace

Status publish_all() {
  Instance *running = instance();
  ATOLL_RETURN_IF_ERROR(running->database->sync_wal().with("syncing the log"));
  atoll_store *store = running->store;
  return wait_in_slices([&](uint32_t timeout_ms) { return atoll_store_publish(store, timeout_ms); });
}

Status before_commit(bool is_spilled) {
  Instance *running = instance();
  // Seldom: a commit costs one atomic load here.
  while (atoll_store_is_backlog_full(running->store) != 0 &&
         (is_spilled || running->database->holds_writers_back())) {
    if (is_interrupted()) return Status(Code::kInterrupted, "");
    std::this_thread::sleep_for(kBacklogInterval);
  }
  return Status::Ok();
}

Status after_commit(uint64_t wal_position) {
  if (durability() == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  atoll_store *store = instance()->store;
  return wait_in_slices(
      [&](uint32_t timeout_ms) { return atoll_store_after_commit(store, wal_position, timeout_ms); });
}

void note_commit(const lsm::CommitMark &mark) {
  const Instance *running = instance();
  const lsm::Gtid gtid = mark.gtid.value_or(lsm::Gtid());
  const lsm::BinlogPosition binlog = mark.binlog.value_or(lsm::BinlogPosition());
  const uint64_t last_sequence = running->database->db(lsm::Side::kMain)->GetLatestSequenceNumber();
  atoll_store_note_commit(running->store, now_us(), last_sequence, gtid.domain, gtid.server, gtid.sequence,
                          binlog.file, binlog.offset);
}

Status after_ddl() {
  // The catalog's writes are synced: on local disk the statement is complete.
  if (durability() == ATOLL_DURABILITY_LOCAL) return Status::Ok();
  Instance *running = instance();
  ATOLL_RETURN_IF_ERROR(running->database->sync_wal().with("syncing the log"));
  const uint64_t position = atoll_store_wal_position(running->store);
  if (durability() == ATOLL_DURABILITY_SYNC) {
    // Families and ingested files are edits of the MANIFEST, beside the log: wait for the root that has them.
    atoll_store *store = running->store;
    return wait_in_slices(
        [&](uint32_t timeout_ms) { return atoll_store_wait_shipped(store, position, timeout_ms); });
  }
  const Status status = after_commit(position);
  if (status.code() != Code::kUnavailable && status.code() != Code::kInterrupted) return status;
  // The statement is done, and its parts (of an ALTER, say) must not be undone one by one because the bucket
  // is slow. It counts in the lag: the commits that follow wait.
  log_warning(status.message());
  if (current_thd != nullptr)
    push_warning_printf(current_thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG, "ATOLL: %s",
                        status.message());
  return Status::Ok();
}

}  // namespace atoll::plugin
