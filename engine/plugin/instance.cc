// Opening and closing, in order: store, database, transactions, catalog, files of the data directory.
#include "plugin/instance.h"

#include "handler/server.h"

#include <mysql/service_kill_statement.h>
#include <mysqld.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/interrupt.h"
#include "base/memory_limit.h"
#include "bridge/result.h"
#include "handler/coordinator_log.h"
#include "handler/handlerton.h"
#include "handler/table_statistics.h"
#include "plugin/background.h"
#include "plugin/connections.h"
#include "plugin/ddl_recovery.h"
#include "plugin/heap.h"
#include "plugin/log.h"
#include "plugin/side_files.h"
#include "plugin/snapshot_keeper.h"
#include "plugin/sysvars.h"
#include "plugin/table_mover.h"

// In the server (sql/sql_show.cc) but in none of its headers.
void ignore_db_dirs_append(const char *directory);

namespace atoll::plugin {
namespace {

constexpr uint64_t kRetrySeconds = 30;  // an unreachable bucket at start
constexpr uint64_t kLookSeconds = 5;    // at start, at an owner that may still live
constexpr uint32_t kDoublingsMax = 7;   // of kRetrySeconds: 64 minutes
constexpr uint64_t kSweepSeconds = 2;   // databases and triggers: how old the kept copy may be
constexpr uint64_t kStatisticsSeconds = 10;
// Publishing at shutdown. Together with what surrounds it, a shutdown ends within 10 s however the bucket
// behaves; what is not published then is on local disk.
constexpr uint32_t kCloseTimeoutMs = 4000;

using Opener = std::unique_ptr<atoll_opener, decltype(&atoll_opener_free)>;

struct State {
  handlerton *hton = nullptr;
  Settings settings;
  Opener opener{nullptr, &atoll_opener_free};  // from the start until the engine runs
  uint32_t epochs_in_vain = 0;                 // claimed by tries that failed later
  uint64_t next_try_second = 0;                // background thread only
  std::unique_ptr<Instance> owned;
  std::unique_ptr<SideFiles> side_files;
  std::unique_ptr<Background> background, heap;
  std::unique_ptr<TableMover> mover;
  std::unique_ptr<SnapshotKeeper> keeper;
  std::atomic<bool> stopping{false};  // ends what the background thread is doing
  uint64_t synced_position = 0;       // of the log; background thread only
  std::atomic<Instance *> running{nullptr};
  std::mutex mutex;
  Status why_not{Code::kUnavailable, "the engine has not been started"};  // guarded by mutex
};

State state;

// A missing variable that the user can set is worth naming.
Status make_base_dir(const std::string &path) {
  if (::mkdir(path.c_str(), my_umask_dir) == 0 || errno == EEXIST) {
    if (::access(path.c_str(), R_OK | W_OK | X_OK) == 0) return Status::Ok();
  }
  return Status(Code::kInvalid, "the directory " + path + " cannot be used: " + std::strerror(errno) +
                                    ". The server's user must be able to write there");
}

// The part cache must leave room for everything else on its disk.
uint64_t fitting_cache_bytes(const Settings &settings) {
  struct statvfs disk {};
  const uint64_t wanted = cache_bytes();
  if (settings.is_local_bucket || ::statvfs(settings.base_dir.c_str(), &disk) != 0) return wanted;
  const uint64_t half_of_disk = static_cast<uint64_t>(disk.f_blocks) * disk.f_frsize / 2;
  if (wanted <= half_of_disk) return wanted;
  log_warning("atoll_cache_size=" + std::to_string(wanted) + " is more than half of the disk of " +
              settings.base_dir + "; " + std::to_string(half_of_disk) +
              " bytes are used. Set a smaller value");
  return half_of_disk;
}

// For waits that do not know their statement.
bool is_killed() {
  const THD *thd = current_thd;
  return thd != nullptr && is_statement_killed(thd);
}

Status open_store(const Settings &settings, atoll_store **out) {
  const std::string local_dir = settings.base_dir + "/db", cache_dir = settings.base_dir + "/cache";
  const std::string server_id =
      std::string(glob_hostname) + ":" + std::to_string(mysqld_port) + ":" + std::to_string(::getpid());
  atoll_store_config config{};
  config.url = settings.url.c_str();
  config.endpoint = settings.endpoint.c_str();
  config.region = settings.region.c_str();
  config.access_key = settings.access_key.c_str();
  config.secret_key = settings.secret_key.c_str();
  config.session_token = settings.session_token.c_str();
  config.ca_file = settings.ca_file.c_str();
  config.addressing = settings.addressing.c_str();
  config.sse = settings.sse.c_str();
  config.sse_kms_key_id = settings.sse_kms_key_id.c_str();
  config.local_dir = local_dir.c_str();
  config.cache_dir = cache_dir.c_str();
  config.server_id = server_id.c_str();
  config.cache_bytes = fitting_cache_bytes(settings);
  config.backlog_bytes_max = backlog_bytes_max();
  config.lag_bytes_max = lag_bytes_max();
  config.lag_ms_max = lag_ms_max();
  config.request_timeout_ms = request_timeout_ms();
  config.durability = durability();
  // A bucket in the data directory goes where that goes, and no two servers run on one: nobody is waited for.
  const bool is_inside = !bucket_beside_databases(settings).empty();
  config.take_over = settings.take_over || is_inside ? 1 : 0;
  config.log = &log_from_store;
  config.is_interrupted = [] { return is_interrupted() ? 1 : 0; };
  const Status status = bridge::to_status(atoll_store_open(state.opener.get(), &config, out));
  if (!status.ok()) *out = nullptr;
  return status.with("opening the bucket of atoll_url = " + settings.url);
}

// A transaction keeps its writes in memory until it commits. A quarter of the memory, at least 1 GiB: enough
// for ten million small rows, and a clear error before the server is killed for lack of memory.
uint64_t transaction_bytes_max() { return std::max<uint64_t>(memory_limit_bytes() / 4, 1ull << 30); }

Status open_database(const Settings &settings, Instance *instance) {
  lsm::DatabaseOptions options;
  options.local_dir = settings.base_dir + "/db";
  options.temp_dir = settings.base_dir + "/temp";
  options.store = instance->store;
  options.block_cache_bytes = block_cache_bytes();
  options.default_compression = default_compression();
  options.log = [](int level, const std::string &message) { log_at_level(level, message); };
  ATOLL_RETURN_IF_ERROR(lsm::Database::open(options, &instance->database).with("opening the local database"));
  ATOLL_RETURN_IF_ERROR(txn::Manager::open(instance->database.get(), &instance->transactions));
  instance->transactions->set_wal_position(
      [store = instance->store] { return atoll_store_wal_position(store); });
  instance->transactions->set_write_bytes_max(transaction_bytes_max());
  instance->transactions->set_transaction_memory(transaction_memory_bytes());
  handler::watch_lock_waits(instance->transactions->locks());
  instance->transactions->locks()->set_describe_user(
      [](void *user) { return describe(connection_of(static_cast<THD *>(user))); });
  return catalog::Catalog::open(instance->database.get(), &instance->catalog);
}

// What a failed step of closing means for the data.
void log_close(const Status &status, const char *step) {
  if (status.ok()) return;
  if (status.code() == Code::kFenced)
    return log_warning(
        "closed. Another server owns the bucket; what this one could not publish before is not there");
  log_warning(std::string(step) + ": " + status.message());
}

// Closes what is open, in reverse order. Bounded by kCloseTimeoutMs plus the flush of memtables to local
// disk.
void close(Instance *instance) {
  if (instance->store != nullptr) atoll_store_stop_waiting(instance->store);
  instance->catalog.reset();
  instance->transactions.reset();
  if (instance->database) {
    log_close(instance->database->shut_down(),
              "the local database was not flushed; the next start reads its log");
    instance->database.reset();
  }
  if (instance->store == nullptr) return;
  const Status closed = bridge::to_status(atoll_store_close(instance->store, kCloseTimeoutMs));
  instance->store = nullptr;
  log_close(closed,
            "closed without publishing everything; the rest is on local disk and is published after the next "
            "start");
}

void restore_side_files(SideFiles *side_files, bool was_restored) {
  std::vector<std::string> restored;
  const Status status = side_files->restore(was_restored, &restored);
  if (!status.ok()) log_error(status.message());
  if (restored.empty()) return;
  std::string names;
  for (const std::string &name : restored) names += (names.empty() ? "" : ", ") + name;
  log_warning(
      "database directories were missing and have been made again from the bucket: " + names +
      ". Their tables and triggers are there; views, stored routines, events, users and grants are kept by "
      "the server itself, not in the bucket: restore them from your own dump");
}

std::filesystem::path data_directory(const Settings &settings) {
  return std::filesystem::path(settings.base_dir).parent_path();
}

Status open_all(const Settings &settings, handlerton *hton) {
  ATOLL_RETURN_IF_ERROR(make_base_dir(settings.base_dir));
  auto instance = std::make_unique<Instance>();
  instance->hton = hton;
  Status status = open_store(settings, &instance->store);
  if (status.ok()) status = open_database(settings, instance.get());
  if (!status.ok()) {
    if (instance->store != nullptr) state.epochs_in_vain++;
    close(instance.get());
    return status;
  }
  const std::filesystem::path data_dir = data_directory(settings);
  state.side_files = std::make_unique<SideFiles>(
      instance->catalog.get(), data_dir.string(),
      FileModes{static_cast<mode_t>(my_umask_dir), static_cast<mode_t>(my_umask)});
  restore_side_files(state.side_files.get(), atoll_store_was_restored(instance->store) != 0);
  prepare_ddl_recovery(*instance->catalog, data_dir);
  state.owned = std::move(instance);
  return Status::Ok();
}

// Directories beside the databases that are not databases: SHOW DATABASES must not list them.
void hide_directories(const Settings &settings) {
  ignore_db_dirs_append("#atoll");
  const std::string bucket = bucket_beside_databases(settings);
  if (!bucket.empty()) ignore_db_dirs_append(bucket.c_str());
}

void set_reason(const Status &status) {
  const std::lock_guard lock(state.mutex);
  state.why_not = status;
}

// Another server that may still live is why the last try to open failed.
bool waits_for_owner() { return state.opener && atoll_opener_waits_ms(state.opener.get()) > 0; }

// Each try that fails behind its claim leaves objects in the bucket for ever, so those become rare.
uint64_t retry_seconds() {
  if (waits_for_owner()) return kLookSeconds;
  return kRetrySeconds << std::min(state.epochs_in_vain, kDoublingsMax);
}

void announce() {
  forget_secrets(&state.settings);
  state.opener.reset();
  set_reason(Status::Ok());
  state.running.store(state.owned.get(), std::memory_order_release);
  log_info("tables live in " + state.settings.url);
}

// A late start cannot do what the server does between plugin start and the first connection: finish
// transactions that were prepared when it crashed, by asking the binary log.
Status refuse_late_recovery() {
  if (state.owned->transactions->prepared_xids().empty()) return Status::Ok();
  state.side_files.reset();
  close(state.owned.get());
  state.owned.reset();
  return Status(
      Code::kReadOnly,
      "the database could not be opened while the server started, and it has prepared transactions that only "
      "a server start can finish. Restart the server");
}

void try_again() {
  const bool waited = waits_for_owner();
  Status status = open_all(state.settings, state.hton);
  if (status.ok()) status = refuse_late_recovery();
  if (status.ok()) {
    finish_ddl_recovery(/*with_log=*/false);
    announce();
    return;
  }
  set_reason(status);
  if (!waited || !waits_for_owner()) log_error(std::string(status.message()));  // a wait is told once
}

// The server's recovery needs the engine: what was committed in the binary log or in tc.log only must be
// committed here before the first connection, and cannot be later. Without local files the binary log of the
// same life is rarely there; what a database made from the bucket has prepared then, refuse_late_recovery()
// leaves to the administrator.
bool must_open_in_start() {
  return !mysqld_server_started && std::filesystem::exists(state.settings.base_dir + "/db/CURRENT") &&
         handler::recovery_may_commit();
}

Status open_at_start() {
  Status status = open_all(state.settings, state.hton);
  if (!waits_for_owner() || !must_open_in_start()) return status;
  log_warning(std::string(status.message()) +
              ". The start of the server waits for that, because the binary log or tc.log may have to decide "
              "about transactions of its tables");
  while (waits_for_owner()) {
    std::this_thread::sleep_for(std::chrono::seconds(kLookSeconds));
    status = open_all(state.settings, state.hton);
  }
  return status;
}

void log_failure(const Status &status) {
  if (!status.ok()) log_error(status.message());
}

bool is_worth_another_try() {
  const std::lock_guard lock(state.mutex);
  return state.why_not.code() == Code::kUnavailable;
}

// Commits sync the log themselves with atoll_flush_log_at_trx_commit=1, but not everything written is a
// commit, and what is not synced is not shipped: it would look like a bucket that lags.
void sync_appended(Instance *running) {
  const uint64_t position = atoll_store_wal_position(running->store);
  if (position == state.synced_position) return;
  const Status status = running->database->sync_wal();
  log_failure(status.with("syncing the log"));
  if (status.ok()) state.synced_position = position;
}

void tick(uint64_t second) {
  Instance *running = instance();
  if (running == nullptr) {
    if (state.next_try_second == 0) state.next_try_second = second + retry_seconds();
    if (!mysqld_server_started || second < state.next_try_second || !is_worth_another_try()) return;
    try_again();
    state.next_try_second = second + retry_seconds();
    return;
  }
  sync_appended(running);
  // A fenced server must not write, not even what it knows about itself.
  if (!bridge::ok(atoll_store_may_write(running->store))) return;
  log_failure(running->catalog->reclaim());
  if (second % kSweepSeconds == 0) log_failure(state.side_files->sweep());
  log_failure(handler::refresh_statistics([] { return state.stopping.load(); }));
  if (second % kStatisticsSeconds == 0) log_failure(running->catalog->write_statistics());
}

}  // namespace

Instance *instance() { return state.running.load(std::memory_order_acquire); }

uint64_t fitting_cache_bytes() { return fitting_cache_bytes(state.settings); }

Status ready() {
  if (instance() != nullptr) return Status::Ok();
  // One code whatever the reason was: for SQL the engine is away, while kNotFound, say, would mean that a
  // table does not exist, and the server would delete its .frm.
  const std::lock_guard lock(state.mutex);
  return Status(Code::kUnavailable,
                std::string("the ATOLL engine is not running: ") + state.why_not.message());
}

Status may_write() {
  Instance *running = instance();
  if (running == nullptr) return ready();
  if (is_read_only())
    return Status(Code::kReadOnly,
                  "atoll_read_only is set on this server. SET GLOBAL atoll_read_only=OFF to allow changes");
  return bridge::to_status(atoll_store_may_write(running->store));
}

Status start_instance(handlerton *hton) {
  state.hton = hton;
  set_statement_check(&is_killed);
  state.settings = take_settings();
  hide_directories(state.settings);
  state.opener.reset(atoll_opener_new());
  state.epochs_in_vain = 0;
  state.next_try_second = 0;
  const Status status = open_at_start();
  if (status.ok()) {
    if (mysqld_server_started) finish_ddl_recovery(/*with_log=*/false);  // INSTALL SONAME
    announce();
  } else {
    set_reason(status);
    log_error(std::string(status.message()) + ". The server runs without its ATOLL tables" +
              (status.code() == Code::kUnavailable
                   ? " and tries again every " + std::to_string(retry_seconds()) + " seconds"
                   : "; correct this, then restart"));
  }
  state.stopping = false;
  state.background = std::make_unique<Background>(&tick);
  state.heap = std::make_unique<Background>([](uint64_t) { return_free_memory(); },
                                            std::chrono::milliseconds(kHeapLookMs));
  state.mover = std::make_unique<TableMover>();
  state.keeper = std::make_unique<SnapshotKeeper>();
  return status;
}

void stop_instance() {
  state.stopping = true;
  stop_moves();
  // Now, because the background thread may wait for what a flush holds up.
  if (state.owned) atoll_store_stop_waiting(state.owned->store);
  state.keeper.reset();
  state.heap.reset();
  state.background.reset();
  if (state.owned) {
    if (may_write().ok()) {
      log_failure(state.side_files->sweep());
      log_failure(state.owned->catalog->write_statistics());
    }
    state.running.store(nullptr, std::memory_order_release);
    state.side_files.reset();
    close(state.owned.get());
    state.owned.reset();
  }
  forget_secrets(&state.settings);
  state.opener.reset();
  set_reason(Status(Code::kUnavailable, "the engine has been stopped"));
}

void stop_moves() { state.mover.reset(); }

void finish_ddl_recovery(bool with_log) {
  if (!state.owned || is_read_only() || !bridge::ok(atoll_store_may_write(state.owned->store))) return;
  const bool was_restored = atoll_store_was_restored(state.owned->store) != 0;
  DataDirectory directory{data_directory(state.settings),
                          static_cast<uint8_t>(state.hton->db_type),
                          !with_log || was_restored,
                          {}};
  if (was_restored) directory.contradicted = state.settings.base_dir + "/contradicted";
  log_failure(
      finish_ddl_recovery(state.owned->catalog.get(), directory).with("finishing what a crash interrupted"));
}

void note_database(const char *directory) {
  if (instance() != nullptr) state.side_files->note(directory);
}

}  // namespace atoll::plugin
