// Opening and closing, in order: store, database, transactions, catalog, files of the data directory.
#include "plugin/instance.h"

#include "handler/server.h"

#include <mysqld.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <vector>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "bridge/result.h"
#include "handler/handlerton.h"
#include "handler/table_statistics.h"
#include "plugin/background.h"
#include "plugin/heap.h"
#include "plugin/log.h"
#include "plugin/side_files.h"
#include "plugin/sysvars.h"

// In the server (sql/sql_show.cc) but in none of its headers.
void ignore_db_dirs_append(const char *directory);

namespace atoll::plugin {
namespace {

constexpr uint64_t kRetrySeconds = 30;  // an unreachable bucket at start
constexpr uint64_t kSweepSeconds = 2;   // databases and triggers: how old the kept copy may be
constexpr uint64_t kStatisticsSeconds = 10;
constexpr uint32_t kCloseTimeoutMs = 30000;  // publishing at shutdown; service managers give up after 90 s

struct State {
  handlerton *hton = nullptr;
  Settings settings;
  std::unique_ptr<Instance> owned;
  std::unique_ptr<SideFiles> side_files;
  std::unique_ptr<Background> background, heap;
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
  config.local_dir = local_dir.c_str();
  config.cache_dir = cache_dir.c_str();
  config.server_id = server_id.c_str();
  config.cache_bytes = fitting_cache_bytes(settings);
  config.lag_bytes_max = lag_bytes_max();
  config.lag_ms_max = lag_ms_max();
  config.request_timeout_ms = request_timeout_ms();
  config.durability = durability();
  config.take_over = settings.take_over ? 1 : 0;
  config.log = &log_from_store;
  const Status status = bridge::to_status(atoll_store_open(&config, out));
  if (!status.ok()) *out = nullptr;
  return status.with("opening the bucket of atoll_url = " + settings.url);
}

// A transaction keeps its writes in memory until it commits. A quarter of the memory, at least 1 GiB: enough
// for ten million small rows, and a clear error before the server is killed for lack of memory.
uint64_t transaction_bytes_max() {
  const auto memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::max<uint64_t>(memory / 4, 1ull << 30);
}

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

// Closes what is open, in reverse order. Bounded by kCloseTimeoutMs plus the flush of memtables.
void close(Instance *instance) {
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

// The server's DDL log went with the machine: what it would have undone is undone here.
void finish_interrupted_alters(Instance *instance) {
  size_t put_back = 0;
  const Status status = instance->catalog->finish_interrupted_alters(&put_back);
  if (!status.ok()) log_error(status.with("undoing interrupted ALTER statements").message());
  if (put_back > 0)
    log_warning("an ALTER was under way when the former server was lost; " + std::to_string(put_back) +
                " tables are as they were before it");
}

std::string content_of(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The server writes the .frm of a discovered table in place: a kill -9 may leave half of it, and the table
// could not be opened any more. The catalog's copy is the truth; without the file the table is discovered
// anew.
void remove_torn_definitions(const std::vector<catalog::TablePtr> &tables,
                             const std::filesystem::path &data_dir) {
  for (const catalog::TablePtr &table : tables) {
    if (table->frm.empty()) continue;
    const std::filesystem::path file = data_dir / table->database / (table->name + ".frm");
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(file, error);
    if (error || bytes >= table->frm.size()) continue;
    if (!std::string_view(table->frm).starts_with(content_of(file))) continue;
    if (std::filesystem::remove(file, error))
      log_warning("removed " + file.string() +
                  ", which was only half written; its table is discovered again");
  }
}

// The server renames a partitioned table in the engine first and its .frm last. Cut off in between, its DDL
// log can undo nothing: it needs the .frm to know the engine of the partitions. With the file moved here, it
// can.
void move_definitions_of_renamed(const catalog::Catalog &catalog,
                                 const std::vector<catalog::TablePtr> &tables,
                                 const std::filesystem::path &data_dir) {
  for (const catalog::TablePtr &table : tables) {
    const size_t slash = table->former_name.find('/');
    if (!table->logical_only || slash == std::string::npos) continue;
    const std::string database = table->former_name.substr(0, slash);
    const std::string name = table->former_name.substr(slash + 1);
    const std::filesystem::path now = data_dir / table->database / (table->name + ".frm");
    const std::filesystem::path before = data_dir / database / (name + ".frm");
    if (catalog::is_internal(name) || catalog.find(database, name) || std::filesystem::exists(now) ||
        content_of(before) != table->frm)
      continue;
    std::error_code error;
    std::filesystem::rename(before, now, error);
    log_warning("the renaming of " + before.string() + " was cut off; its definition now follows as " +
                now.string());
  }
}

// A .par file of this content without a .frm; empty: there is none.
std::filesystem::path stray_partition_list(const std::filesystem::path &directory, std::string_view content) {
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    const std::filesystem::path &file = entry.path();
    if (file.extension() != ".par" || content_of(file) != content) continue;
    if (!std::filesystem::exists(std::filesystem::path(file).replace_extension(".frm"))) return file;
  }
  return {};
}

// It renames the file that lists the partitions in between. Cut off after that, the catalog puts the
// partitions back, and the file stands under a name where nobody looks for it.
void put_back_partition_lists(const std::vector<catalog::TablePtr> &tables,
                              const std::filesystem::path &data_dir) {
  for (const catalog::TablePtr &table : tables) {
    if (!table->logical_only || table->par.empty()) continue;
    const std::filesystem::path directory = data_dir / table->database;
    const std::filesystem::path own = directory / (table->name + ".par");
    if (std::filesystem::exists(own) || !std::filesystem::exists(directory / (table->name + ".frm")))
      continue;
    std::error_code error;
    const std::filesystem::path stray = stray_partition_list(directory, table->par);
    if (!stray.empty()) std::filesystem::rename(stray, own, error);
    if (stray.empty() || error) std::ofstream(own, std::ios::binary) << table->par;
    log_warning("made " + own.string() + " again, which was missing");
  }
}

Status open_all(const Settings &settings, handlerton *hton) {
  ATOLL_RETURN_IF_ERROR(make_base_dir(settings.base_dir));
  auto instance = std::make_unique<Instance>();
  instance->hton = hton;
  Status status = open_store(settings, &instance->store);
  if (status.ok()) status = open_database(settings, instance.get());
  if (!status.ok()) {
    close(instance.get());
    return status;
  }
  const bool was_restored = atoll_store_was_restored(instance->store) != 0;
  if (was_restored) finish_interrupted_alters(instance.get());
  state.side_files = std::make_unique<SideFiles>(
      instance->catalog.get(), std::filesystem::path(settings.base_dir).parent_path().string(),
      FileModes{static_cast<mode_t>(my_umask_dir), static_cast<mode_t>(my_umask)});
  restore_side_files(state.side_files.get(), was_restored);
  const std::filesystem::path data_dir = std::filesystem::path(settings.base_dir).parent_path();
  const std::vector<catalog::TablePtr> tables = instance->catalog->list("");
  remove_torn_definitions(tables, data_dir);
  move_definitions_of_renamed(*instance->catalog, tables, data_dir);
  put_back_partition_lists(tables, data_dir);
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

void announce() {
  forget_secrets(&state.settings);
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
      "the bucket can be reached again, but there are prepared transactions that only a server start can "
      "finish. Restart the server");
}

void try_again() {
  Status status = open_all(state.settings, state.hton);
  if (status.ok()) status = refuse_late_recovery();
  if (status.ok()) {
    announce();
    return;
  }
  set_reason(status);
  log_error(std::string(status.message()));
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
    if (second % kRetrySeconds == 0 && is_worth_another_try()) try_again();
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
  state.settings = take_settings();
  hide_directories(state.settings);
  const Status status = open_all(state.settings, hton);
  if (status.ok()) {
    announce();
  } else {
    set_reason(status);
    log_error(std::string(status.message()) + ". The server runs without its ATOLL tables" +
              (status.code() == Code::kUnavailable ? " and tries again every 30 seconds"
                                                   : "; correct this, then restart"));
  }
  state.stopping = false;
  state.background = std::make_unique<Background>(&tick);
  state.heap = std::make_unique<Background>([](uint64_t) { return_free_memory(); },
                                            std::chrono::milliseconds(kHeapLookMs));
  return status;
}

void stop_instance() {
  state.stopping = true;
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
  set_reason(Status(Code::kUnavailable, "the engine has been stopped"));
}

void note_database(const char *directory) {
  if (instance() != nullptr) state.side_files->note(directory);
}

}  // namespace atoll::plugin
