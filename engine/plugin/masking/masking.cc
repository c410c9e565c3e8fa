// See masking.h.
#include "plugin/masking/masking.h"

#include "handler/server.h"

#include <mysqld.h>

#include "base/log.h"
#include "bridge/objstore.h"
#include "bridge/result.h"
#include "bridge/snapshots.h"
#include "engine/running.h"
#include "plugin/masking/sql_file.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {
namespace {

constexpr std::chrono::milliseconds kLookEach{100}, kRetryEach{1000};

constexpr const char *kSession[] = {
    "SET NAMES utf8mb4",
    "SET SESSION sql_log_bin = 0, max_statement_time = 0, tx_read_only = 0",
};

std::string uuid_of(const engine::Engine &running) {
  atoll_store_stats stats;
  atoll_store_get_stats(running.store(), &stats);
  return bridge::text_of(stats.database_uuid);
}

void close_tables(const std::string &why) {
  engine::hold_back(
      Status(Code::kUnavailable, "the tables of this clone are closed until they are masked: " + why));
}

// Checks that the bucket has no pin of the history any more. The collector drops these pins soon after the
// history was suspended. Errors: kUnavailable while there is one.
Status expect_no_history(const engine::Engine &running) {
  bool has_history = false;
  const auto look_at = [&has_history](const atoll_snapshot *snapshot) {
    has_history |= std::string_view(snapshot->kind) == "history";
  };
  ATOLL_RETURN_IF_ERROR(bridge::for_each_snapshot(running.store(), look_at));
  return has_history ? Status(Code::kUnavailable, "the history from before the masking is still there")
                     : Status::Ok();
}

}  // namespace

std::unique_ptr<Masking> Masking::begin(engine::Engine *running, const std::string &file) {
  if (file.empty() || running->catalog()->masked_database() == uuid_of(*running)) return nullptr;
  close_tables("the server starts");
  return std::unique_ptr<Masking>(new Masking(running, file));
}

Masking::Masking(engine::Engine *running, std::string file)
    : running_(running), file_(std::move(file)), background_([this](uint64_t) { turn(); }, kLookEach) {}

void Masking::turn() {
  if (is_over_ || !mysqld_server_started || abort_loop || Clock::now() < not_before_) return;
  const engine::Preparation scope;
  const Status status = mask();
  if (status.code() == Code::kUnavailable) {  // the bucket does not answer, or still has pins of the history
    not_before_ = Clock::now() + kRetryEach;
    return;
  }
  is_over_ = true;
  if (status.ok()) {
    log_info("the statements of " + file_ + " have run: the tables of this clone are open");
    engine::let_in();
    suspend_history(false);
    return;
  }
  close_tables(status.message());
  if (!abort_loop)
    log_error("the tables of this clone stay closed: " + std::string(status.message()) +
              ". Correct this, then restart: all statements of the file will run again");
}

Status Masking::mask() {
  if (!have_run_) ATOLL_RETURN_IF_ERROR(run_file());
  have_run_ = true;
  // A later history begins with the newest root. So this root, and the log that follows it, must contain
  // masked rows only.
  ATOLL_RETURN_IF_ERROR(running_->database()->flush(nullptr));
  ATOLL_RETURN_IF_ERROR(running_->gate().publish_all());
  ATOLL_RETURN_IF_ERROR(expect_no_history(*running_));
  return running_->catalog()->set_masked_database(uuid_of(*running_));
}

Status Masking::run_file() {
  uint8_t is_clone = 0;
  ATOLL_RETURN_IF_ERROR(bridge::to_status(atoll_store_is_clone(running_->store(), &is_clone)));
  if (is_clone == 0)
    return Status(
        Code::kInvalid,
        "atoll_mask_file is set, but this database is no clone (atollctl clone). Nothing was changed; "
        "remove the setting, or correct atoll_url");
  std::vector<std::string> statements;
  ATOLL_RETURN_IF_ERROR(read_sql_file(file_, &statements));
  // Nobody shall be able to restore a moment from before the end of the masking.
  suspend_history(true);
  return run(statements);
}

Status Masking::run(const std::vector<std::string> &statements) {
  LocalSql sql;
  for (const char *statement : kSession)
    ATOLL_RETURN_IF_ERROR(run_one(&sql, statement, "preparing the session"));
  for (size_t number = 0; number < statements.size(); number++) {
    close_tables(std::to_string(number) + " of the " + std::to_string(statements.size()) + " statements of " +
                 file_ + " have run");
    ATOLL_RETURN_IF_ERROR(
        run_one(&sql, statements[number], "statement " + std::to_string(number + 1) + " of " + file_));
  }
  // Commits a transaction that the file left open, because the end of the session would roll it back.
  return run_one(&sql, "COMMIT", "COMMIT behind the last statement of " + file_);
}

Status Masking::run_one(LocalSql *sql, const std::string &statement, const std::string &name) {
  const LocalSql::Outcome outcome = sql->run(statement);
  if (outcome.error == 0) return Status::Ok();
  return Status(Code::kInvalid, name + " failed: " + outcome.message);
}

}  // namespace atoll::plugin
