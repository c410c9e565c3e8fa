// See start_stop.h. Engine::open() opens the engine itself (engine/engine.h). This file connects it to the
// server: to its variables, data directory, recovery and error log.
#include "plugin/start_stop.h"

#include "handler/server.h"

#include <mysqld.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <sys/stat.h>

#include "base/border/border.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "bridge/result.h"
#include "engine/engine.h"
#include "engine/bucket_waits.h"
#include "engine/running.h"
#include "engine/waiting.h"
#include "handler/session/coordinator_log.h"
#include "handler/session/session.h"
#include "handler/handlerton.h"
#include "handler/statistics/open_shares.h"
#include "plugin/host/background.h"
#include "plugin/show/connections.h"
#include "plugin/recovery/ddl_recovery.h"
#include "plugin/recovery/gtid_state.h"
#include "plugin/recovery/lost_tables.h"
#include "plugin/host/heap.h"
#include "plugin/tables/hand_over.h"
#include "plugin/host/offer.h"
#include "plugin/host/service_manager.h"
#include "plugin/host/statement_hooks.h"
#include "plugin/reading/follower.h"
#include "plugin/reading/promotion.h"
#include "plugin/recovery/side_files.h"
#include "plugin/plugin.h"
#include "plugin/show/name_hint.h"
#include "plugin/show/status.h"
#include "plugin/masking/masking.h"
#include "plugin/snapshots/mount_functions.h"
#include "plugin/snapshots/snapshot_keeper.h"
#include "plugin/sysvars.h"
#include "plugin/host/table_mover.h"

// The server has these (sql/sql_show.cc, sql/mysqld.cc), but none of its headers declares them. The second is
// true when the plugins of the server's start are there: recovery from the DDL log follows for them, and for
// no others.
void ignore_db_dirs_append(const char *directory);
extern my_bool plugins_are_initialized;

namespace atoll::plugin {
namespace {

constexpr uint64_t kRetrySeconds = 30;  // between two attempts to open, when the bucket is unreachable
// How much longer the service manager is asked to wait at each attempt to open. A slow bucket answers late.
constexpr std::chrono::seconds kStartExtension{120};
constexpr uint64_t kLookSeconds = 5;   // between two attempts, while another owner may still live
constexpr uint32_t kDoublingsMax = 7;  // how often kRetrySeconds is doubled at most, up to 64 minutes
// Unless SideFiles::sweep() fails, the copies of db.opt and of trigger files in the catalog are at most so
// old.
constexpr uint64_t kSweepSeconds = 2;
constexpr uint64_t kStatisticsSeconds = 10;  // between two writes of changed table statistics to the catalog

using Opener = std::unique_ptr<atoll_opener, decltype(&atoll_opener_free)>;

struct State {
  handlerton *hton = nullptr;
  engine::StartSettings settings;
  Opener opener{nullptr, &atoll_opener_free};  // exists from the start until the engine runs
  uint32_t epochs_in_vain = 0;                 // epochs claimed by attempts to open that failed later
  bool is_first_start = false;                 // there was no database in base_dir
  // The second, as the background thread counts them, of the next attempt to open; 0: not chosen yet. Only
  // the background thread uses it.
  uint64_t next_try_second = 0;
  std::unique_ptr<engine::Engine> owned;
  std::unique_ptr<SideFiles> side_files;
  std::unique_ptr<ViewFiles> view_files;  // of a reader, until the follower has them
  std::unique_ptr<Follower> follower;
  std::unique_ptr<Background> background, heap;
  std::unique_ptr<TableMover> mover;
  std::unique_ptr<SnapshotKeeper> keeper;
  std::unique_ptr<Masking> masking;
  std::unique_ptr<NameHint> names;
  std::atomic<bool> stopping{false};  // interrupts the work of the background thread
  Offer<OfferedKeys> offered_keys;
  Offer<const void *> promotions;           // of become_writer(): the THD that asks
  std::unique_ptr<engine::Engine> retired;  // the reader that this server was before its promotion
  DdlGtids ddl_gtids;                       // only the background thread uses it
  uint64_t synced_position = 0;  // the log was synced up to here; only the background thread uses it
};

State state;

// Makes the directory, unless it exists. Errors: kInvalid, with a message that says what the user can do.
Status make_base_dir(const std::string &path) {
  if (::mkdir(path.c_str(), my_umask_dir) == 0 || errno == EEXIST) {
    if (::access(path.c_str(), R_OK | W_OK | X_OK) == 0) return Status::Ok();
  }
  return Status(Code::kInvalid, "the directory " + path + " cannot be used: " + std::strerror(errno) +
                                    ". The server's user must be able to write there");
}

engine::Options engine_options(const engine::StartSettings &start) {
  engine::Options options;
  options.start = &start;
  options.settings = &settings();
  options.opener = state.opener.get();
  options.server_id =
      std::string(glob_hostname) + ":" + std::to_string(mysqld_port) + ":" + std::to_string(::getpid());
  options.statement_settings = &statement_settings;
  options.warn = &warn_statement;
  return options;
}

void watch_locks(txn::LockTable *locks) {
  handler::watch_lock_waits(locks);
  locks->set_describe_user([](void *user) { return describe(connection_of(static_cast<THD *>(user))); });
}

std::filesystem::path data_directory(const engine::StartSettings &settings) {
  return std::filesystem::path(settings.base_dir).parent_path();
}

bool has_database(const engine::StartSettings &settings) {
  return std::filesystem::exists(settings.base_dir + "/db/CURRENT");
}

Status open_all(const engine::StartSettings &settings) {
  ATOLL_RETURN_IF_ERROR(make_base_dir(settings.base_dir));
  if (!settings.is_reader && !has_database(settings)) set_restore_mark(settings.base_dir);
  std::unique_ptr<engine::Engine> opened;
  bool has_claimed = false;
  const Status status = engine::Engine::open(engine_options(settings), &opened, &has_claimed);
  if (!status.ok()) {
    if (has_claimed) state.epochs_in_vain++;
    return status;
  }
  watch_locks(opened->transactions()->locks());
  const std::filesystem::path data_dir = data_directory(settings);
  const FileModes modes{static_cast<mode_t>(my_umask_dir), static_cast<mode_t>(my_umask)};
  if (opened->views() != nullptr) {
    const auto own_type = static_cast<uint8_t>(state.hton->db_type);
    state.view_files = std::make_unique<ViewFiles>(data_dir, modes, own_type);
    ATOLL_RETURN_IF_ERROR(state.view_files->make(*opened->views()->newest()));
    state.owned = std::move(opened);
    return Status::Ok();
  }
  if (opened->was_restored()) set_restore_mark(settings.base_dir);
  ViewFiles::remove_all(data_dir);
  state.side_files = std::make_unique<SideFiles>(opened->catalog(), data_dir.string(), modes);
  restore_side_files(state.side_files.get(), opened->was_restored());
  remove_former_mounts(opened->mounts(), data_dir.string());
  prepare_ddl_recovery(opened->catalog(), data_dir);
  state.owned = std::move(opened);
  return Status::Ok();
}

// Keeps SHOW DATABASES from listing directories that are beside those of the databases but are no databases.
void hide_directories(const engine::StartSettings &settings) {
  ignore_db_dirs_append("#atoll");
  const std::string bucket = settings.bucket_beside_databases();
  if (!bucket.empty()) ignore_db_dirs_append(bucket.c_str());
}

// Whether the last attempt to open failed because another server may still own the bucket.
bool waits_for_owner() { return state.opener && atoll_opener_waits_ms(state.opener.get()) > 0; }

// A try to open that fails after it has claimed the bucket leaves objects in the bucket for ever. So each
// such failure doubles the time until the next attempt.
uint64_t retry_seconds() {
  return waits_for_owner() ? kLookSeconds : kRetrySeconds << std::min(state.epochs_in_vain, kDoublingsMax);
}

// Closes the tables if the statements of atoll_mask_file must run first. Called before the server serves the
// first connection, or, if the engine opens later, before a statement can use the engine. By then the server
// has finished recovery from its DDL log, for which it must open tables.
void close_what_is_not_masked() {
  if (state.owned->views() != nullptr) return;  // a reader takes no view of them
  state.masking = Masking::begin(state.owned.get(), state.settings.mask_file);
}

void announce() {
  if (state.owned->views() == nullptr) forget_secrets(&state.settings);  // a promotion needs them
  state.opener.reset();
  if (plugins_are_initialized) close_what_is_not_masked();
  engine::set_running(state.owned.get());
  use_kept_settings();
  if (engine::Views *views = state.owned->views())
    state.follower = std::make_unique<Follower>(views, std::move(state.view_files));
  log_info(std::string("version ") + kVersionText + ": " + database_text());
}

// If the engine opens after the start of the server, it cannot take part in the server's recovery, which
// decides by the binary log about transactions that were prepared before a crash. So this function refuses to
// open a database that has prepared transactions.
Status refuse_late_recovery() {
  handler::roll_back_undecided(state.owned.get());
  if (state.owned->transactions()->prepared_xids().empty()) return Status::Ok();
  state.side_files.reset();
  state.owned.reset();
  return Status(
      Code::kReadOnly,
      "the database could not be opened while the server started, and it has prepared transactions that only "
      "a server start can finish. Restart the server");
}

// Tells statements why the engine does not run.
void say_why_not(const Status &why) {
  const uint32_t left_ms = state.opener ? atoll_opener_waits_ms(state.opener.get()) : 0;
  if (left_ms == 0) return engine::set_not_running(why);
  engine::set_waiting(why, std::chrono::milliseconds(left_ms));
}

Status try_again() {
  const bool waited = waits_for_owner();
  Status status = open_all(state.settings);
  if (status.ok()) status = refuse_late_recovery();
  if (status.ok()) {
    finish_ddl_recovery(/*with_log=*/false);
    announce();
    return status;
  }
  say_why_not(status);
  if (!waited || !waits_for_owner()) log_error(std::string(status.message()));  // a wait is logged once
  return status;
}

// Whether the start of the server must wait for the engine. Transactions that are committed only in the
// binary log or in tc.log must be committed in the engine before the first connection; later is too late. A
// server without local files need not wait, because it rarely has the binary log that belongs to the
// database. The prepared transactions of a database that was made from the bucket are left to the
// administrator (refuse_late_recovery()).
bool must_open_in_start() {
  return !mysqld_server_started && has_database(state.settings) && handler::recovery_may_commit();
}

Status open_at_start() {
  Status status = open_all(state.settings);
  if (!waits_for_owner() || !must_open_in_start()) return status;
  log_warning(std::string(status.message()) +
              ". The start of the server waits for that, because the binary log or tc.log may have to decide "
              "about transactions of its tables");
  while (waits_for_owner()) {
    ask_for_more_time("ATOLL waits until another server has shown no sign of life", kStartExtension);
    std::this_thread::sleep_for(std::chrono::seconds(kLookSeconds));
    status = open_all(state.settings);
  }
  return status;
}

void log_failure(const Status &status) {
  if (!status.ok()) log_error(status.message());
}

bool is_worth_another_try() {
  const Code why = engine::why_not_running().code();
  return why == Code::kUnavailable || why == Code::kNoMemory;
}

// Syncs the log if anything was appended since the last call. With atoll_flush_log_at_trx_commit=1 each
// commit syncs the log, but other writes do not. The shipper uploads only synced bytes, so without this call
// the bucket would seem to lag behind.
void sync_appended(const engine::Engine *running) {
  const uint64_t position = atoll_store_wal_position(running->store());
  if (position == state.synced_position) return;
  const Status status = running->database()->sync_wal();
  log_failure(status.with("syncing the log"));
  if (status.ok()) state.synced_position = position;
}

void tend_memory(uint64_t) {
  const uint64_t resident = return_free_memory();
  if (engine::Engine *running = engine::running())
    bound_block_cache(running->database(), running->settings().block_cache_bytes, resident);
}

// Tries to open the engine with the keys. Returns true when the bucket has accepted them: the engine is open,
// or it waits for another owner. Otherwise the former keys stay.
bool can_open_with(OfferedKeys keys, Status *status) {
  engine::StartSettings *settings = &state.settings;
  if (keys.access_key.empty()) keys.access_key = settings->access_key;
  const auto swap_keys = [&] {
    std::swap(settings->access_key, keys.access_key);
    std::swap(settings->secret_key, keys.secret_key);
    std::swap(settings->session_token, keys.session_token);
  };
  swap_keys();
  *status = guarded(try_again);
  if (status->ok() || waits_for_owner()) return true;
  swap_keys();
  return false;
}

// Tries to open the engine with the keys that a SET GLOBAL offers. Returns false when none offers any.
bool try_offered_keys() {
  std::optional<OfferedKeys> keys = state.offered_keys.take();
  if (!keys) return false;
  Status status = engine::ready();
  if (is_worth_another_try() && can_open_with(std::move(*keys), &status)) status = Status::Ok();
  state.offered_keys.answer(status);
  return true;
}

// Lets the reader run again after a promotion has failed.
void be_reader_again() {
  state.settings.is_reader = true;
  state.side_files.reset();
  state.owned = std::move(state.retired);
  engine::Views *views = state.owned->views();
  log_failure(state.view_files->make(*views->newest()));
  state.follower = std::make_unique<Follower>(views, std::move(state.view_files));
  engine::set_running(state.owned.get());
}

// The former writer is not waited for: somebody has decided that this server takes its place, and the claim
// fences it. So neither of the two can lose what the other one has acknowledged with atoll_durability=sync.
Status promote(const void *statement) {
  if (!state.owned || state.owned->views() == nullptr) return engine::ready();
  state.view_files = state.follower->stop();
  state.follower.reset();
  const Status why(Code::kUnavailable, "this server is becoming the writer; repeat the statement");
  engine::hold_back(why);
  Status status = leave(state.owned.get(), statement);
  engine::set_not_running(why);
  engine::let_in();
  state.retired = std::move(state.owned);
  state.settings.is_reader = false;
  const bool takes_over = std::exchange(state.settings.take_over, true);
  if (status.ok()) {
    state.opener.reset(atoll_opener_new());
    status = guarded(try_again);
  }
  state.settings.take_over = takes_over;
  status.ok() ? retire(state.retired.get()) : be_reader_again();
  log_info(status.ok() ? "this server was a reader and is the writer now"
                       : "this server remains a reader: " + std::string(status.message()));
  return status;
}

void open_later(uint64_t second) {
  if (state.next_try_second == 0) state.next_try_second = second + retry_seconds();
  if (!mysqld_server_started) return;
  if (!try_offered_keys()) {
    if (second < state.next_try_second || !is_worth_another_try()) return;
    (void)try_again();
  }
  state.next_try_second = second + retry_seconds();
}

void tick(uint64_t second) {
  engine::Engine *running = engine::running();
  if (const auto statement = state.promotions.take()) return state.promotions.answer(promote(*statement));
  if (running == nullptr) return open_later(second);
  if (state.offered_keys.take())
    state.offered_keys.answer(
        Status(Code::kUnavailable, "the engine has just started; repeat the statement"));
  if (running->views() != nullptr) return;
  sync_appended(running);
  engine::BucketWaits::of_process().look(running->store());
  // A fenced server must not write anything, not even statistics and copies of the server's files.
  if (!bridge::ok(atoll_store_may_write(running->store()))) return;
  log_failure(running->catalog()->reclaim());
  log_failure(state.ddl_gtids.look(*running).with("writing the GTID of a DDL statement to the log"));
  log_failure(settle_hand_overs(second));
  if (second % kSweepSeconds == 0) log_failure(state.side_files->sweep());
  log_failure(handler::refresh_statistics([] { return state.stopping.load(); }));
  if (second % kStatisticsSeconds == 0) log_failure(running->catalog()->write_statistics());
}

}  // namespace

Status start_instance(handlerton *hton) {
  state.hton = hton;
  engine::BucketWaits::of_process().forget();
  engine::BucketWaits::of_process().set_hooks({&is_out_of_time, &show_wait});
  set_statement_check(&is_killed, [] { return static_cast<bool>(abort_loop); });
  state.settings = take_settings();
  hide_directories(state.settings);
  state.opener.reset(atoll_opener_new());
  state.epochs_in_vain = 0;
  state.next_try_second = 0;
  state.is_first_start = !has_database(state.settings);
  const Status status = open_at_start();
  if (status.ok()) {
    if (plugins_are_initialized) finish_ddl_recovery(/*with_log=*/false);  // loaded by INSTALL SONAME
    announce();
  } else {
    say_why_not(status);
    log_error(std::string(status.message()) + ". The server runs without its ATOLL tables" +
              (is_worth_another_try()
                   ? " and tries again every " + std::to_string(retry_seconds()) + " seconds"
                   : "; correct this, then restart"));
  }
  state.stopping = false;
  state.background = std::make_unique<Background>(&tick);
  state.heap = std::make_unique<Background>(&tend_memory, std::chrono::milliseconds(kHeapLookMs));
  state.mover = std::make_unique<TableMover>();
  state.keeper = std::make_unique<SnapshotKeeper>();
  state.names = std::make_unique<NameHint>();
  return status;
}

void stop_instance() {
  const Status stopped(Code::kUnavailable, "the engine has been stopped");
  state.stopping = true;
  stop_own_statements();
  // stop_waiting() must come before the threads end, because the background thread may wait for a flush, and
  // the flush for room in the upload backlog.
  if (state.owned) state.owned->stop_waiting();
  state.follower.reset();
  state.keeper.reset();
  state.names.reset();
  state.heap.reset();
  state.background.reset();
  if (state.owned) {
    if (state.owned->may_write().ok()) {
      log_failure(state.side_files->sweep());
      log_failure(state.owned->catalog()->write_statistics());
    }
    engine::set_not_running(stopped);
    state.side_files.reset();
    state.owned.reset();
  }
  state.retired.reset();
  forget_secrets(&state.settings);
  state.opener.reset();
  engine::set_not_running(stopped);
  engine::let_in();
  suspend_history(false);
}

void stop_own_statements() {
  state.mover.reset();
  // A flush of the masking cannot be interrupted, so its wait for room in the upload backlog must end.
  if (state.masking && state.owned) state.owned->stop_waiting();
  state.masking.reset();
}

Status open_with_keys(OfferedKeys keys) {
  if (!is_worth_another_try()) return engine::ready();
  return state.offered_keys.make(std::move(keys));
}

Status become_writer(const void *statement) {
  const handler::Session *session = handler::Session::of(current_thd, false);
  if (session != nullptr && session->has_transaction())
    return Status(Code::kInvalid, "end the transaction of this connection first: COMMIT or ROLLBACK");
  return state.promotions.make(statement);
}

// Logs which ATOLL tables have no rows, if the data directory is a backup made without #atoll.
void tell_of_lost_tables(const DataDirectory &directory, bool came_from_bucket) {
  const catalog::Catalog &catalog = *state.owned->catalog();
  const LostTables lost =
      came_from_bucket ? LostTables() : find_lost_tables(catalog, directory.path, directory.own_type);
  const std::string message =
      lost_tables_message(lost, gtid_of_backup(directory.path), state.settings.url, came_from_bucket);
  if (!message.empty()) log_warning(message);
}

void finish_ddl_recovery(bool with_log) {
  if (!state.owned) return;
  state.owned->catalog()->holds_drops = false;
  if (with_log) close_what_is_not_masked();
  if (!state.owned->may_write().ok()) return;
  const bool was_restored = state.owned->was_restored();
  DataDirectory directory{data_directory(state.settings),
                          static_cast<uint8_t>(state.hton->db_type),
                          !with_log || has_restore_mark(state.settings.base_dir),
                          {}};
  if (was_restored) {
    directory.contradicted = state.settings.base_dir + "/contradicted";
    continue_gtids(*state.owned);
  }
  const Status finished = finish_ddl_recovery(state.owned->catalog(), directory);
  if (finished.ok()) clear_restore_mark(state.settings.base_dir);
  log_failure(finished.with("finishing what a crash interrupted"));
  if (state.is_first_start) tell_of_lost_tables(directory, was_restored);
}

}  // namespace atoll::plugin
