// See masking.h.
#include "plugin/masking/masking.h"

#include "handler/server.h"

#include <mysqld.h>

#include "base/log.h"
#include "bridge/callback.h"
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

// Whether the tables must stay closed whatever the settings are (MASK-3). `record`: the catalog's.
bool owes_masking(const engine::Engine &running, const catalog::MaskingRecord &record) {
  return !record.begun_in.empty() || atoll_store_owes_masking(running.store(), record.done_in.c_str()) != 0;
}

// Closes the tables of a clone that must be masked, although the server does not know how.
void keep_closed(const catalog::MaskingRecord &record) {
  const std::string why =
      std::string(record.begun_in.empty() ? "it was made by atollctl clone --mask"
                                          : "a masking has begun and has not ended") +
      ". Set atoll_mask_file to a file with the statements that mask its rows, then restart";
  close_tables(why);
  log_error("the tables of this clone stay closed: " + why);
}

// XA transactions that the parent had prepared are invisible to the statements, and a user could commit them
// afterwards. Errors: kUnavailable while there is one.
Status expect_nothing_prepared(const engine::Engine &running) {
  const size_t prepared = running.transactions()->prepared_xids().size();
  if (prepared == 0) return Status::Ok();
  return Status(Code::kUnavailable,
                std::to_string(prepared) +
                    " XA transactions of the parent are prepared, and the statements would "
                    "not see their rows. End them: XA RECOVER lists them");
}

// Checks that the store has no table file from before the last rewrite. Errors: kUnavailable while it has
// one.
Status expect_new_files(const engine::Engine &running, uint64_t last_former) {
  size_t former = 0;
  const auto count = [&former, last_former](uint64_t number, uint64_t) { former += number <= last_former; };
  bridge::Callback each(count);
  atoll_store_list_files(running.store(), &each, each.function<uint64_t, uint64_t>());
  each.rethrow();
  if (former == 0) return Status::Ok();
  return Status(Code::kUnavailable, std::to_string(former) + " table files from before are in use");
}

// Checks that the bucket has no pin of the history any more. The collector drops these pins soon after the
// history was suspended. Errors: kUnavailable while there is one.
Status expect_no_history(const engine::Engine &running) {
  bool has_history = false;
  const auto look_at = [&has_history](const atoll_snapshot *snapshot) {
    has_history |= std::string_view(snapshot->kind) == "history";
  };
  ATOLL_RETURN_IF_ERROR(bridge::for_each_pin(running.store(), look_at));
  return has_history ? Status(Code::kUnavailable, "the history from before the masking is still there")
                     : Status::Ok();
}

}  // namespace

Status check_masked(const engine::Engine &running, const catalog::MaskingRecord &then) {
  const catalog::MaskingRecord now = running.catalog()->masking();
  const bool is_former = !now.done_in.empty() && now.done_in != then.done_in;
  if (!is_former && !owes_masking(running, then)) return Status::Ok();
  return Status(Code::kInvalid,
                "that state has rows from before the end of the masking of this clone, which nobody may see");
}

std::unique_ptr<Masking> Masking::begin(engine::Engine *running, const std::string &file) {
  const catalog::MaskingRecord record = running->catalog()->masking();
  const bool owes = owes_masking(*running, record);
  if (!owes && (file.empty() || record.done_in == uuid_of(*running))) return nullptr;
  if (file.empty()) {
    keep_closed(record);
    return nullptr;
  }
  close_tables("the server starts");
  return std::unique_ptr<Masking>(new Masking(running, file));
}

Masking::Masking(engine::Engine *running, std::string file)
    : running_(running), file_(std::move(file)), background_([this](uint64_t) { turn(); }, kLookEach) {}

void Masking::turn() {
  if (is_over_ || !mysqld_server_started || abort_loop || Clock::now() < not_before_) return;
  const engine::Preparation scope;
  const Status status = mask();
  // The bucket does not answer, the disk is full, or something from before is still in use.
  if (status.code() == Code::kUnavailable || status.code() == Code::kNoSpace) {
    close_tables(status.message());
    not_before_ = Clock::now() + kRetryEach;
    return;
  }
  is_over_ = true;
  if (status.ok()) {
    log_info("the statements of " + file_ + " have run: the tables of this clone are open");
    engine::let_in();
    suspend_history(false);
    warn_of_pins();
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
  ATOLL_RETURN_IF_ERROR(remove_former_rows());
  // A later history begins with the newest root. So this root, and the log that follows it, must contain
  // masked rows only.
  ATOLL_RETURN_IF_ERROR(running_->gate().publish_all());
  ATOLL_RETURN_IF_ERROR(expect_no_history(*running_));
  ATOLL_RETURN_IF_ERROR(running_->catalog()->end_masking(uuid_of(*running_)));
  // The next state in the bucket has the record of the end, so that its clones and mounts may be shown.
  return running_->gate().publish_all();
}

// UPDATE and DELETE leave the former rows, and the keys of index entries, in the table files that were there,
// in the log and in the MANIFEST. Errors: kUnavailable while anything from before is in use.
Status Masking::remove_former_rows() {
  if (!is_rewritten_) {
    close_tables("all statements have run; the table files are being written anew");
    if (!running_->catalog()->is_reclaimed())
      return Status(Code::kUnavailable, "the rows of dropped tables are being deleted");
    ATOLL_RETURN_IF_ERROR(running_->database()->rewrite(&last_former_));
  }
  is_rewritten_ = true;
  return expect_new_files(*running_, last_former_);
}

// A snapshot from before, or a clone of the clone, keeps files with rows that are not masked. No server
// mounts such a state, but who has the keys of the bucket can read it.
void Masking::warn_of_pins() const {
  std::string names;
  const auto add = [&names](const atoll_snapshot *snapshot) {
    const std::string_view kind = snapshot->kind;
    if (kind == "snapshot" || kind == "clone")
      names += (names.empty() ? "" : ", ") + std::string(kind) + " '" + snapshot->name + "'";
  };
  if (bridge::for_each_pin(running_->store(), add).ok() && !names.empty())
    log_warning(
        "the bucket keeps states of this clone from before it was masked: " + names +
        ". Anybody with the keys of the bucket can read their rows; to remove them, drop these snapshots");
}

Status Masking::run_file() {
  uint8_t is_clone = 0;
  ATOLL_RETURN_IF_ERROR(bridge::to_status(atoll_store_is_clone(running_->store(), &is_clone)));
  if (is_clone == 0)
    return Status(
        Code::kInvalid,
        "atoll_mask_file is set, but this database is no clone (atollctl clone). Nothing was changed; "
        "remove the setting, or correct atoll_url");
  const std::string uuid = uuid_of(*running_);
  if (running_->catalog()->masking().begun_in != uuid)
    ATOLL_RETURN_IF_ERROR(running_->catalog()->begin_masking(uuid));
  ATOLL_RETURN_IF_ERROR(expect_nothing_prepared(*running_));
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
