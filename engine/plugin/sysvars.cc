// See sysvars.h. `mariadbd --help --verbose` shows the text of each variable.
#include "handler/server.h"

#include <mysql/plugin.h>

#include <algorithm>
#include <filesystem>

#include <unistd.h>

#include "base/mutex.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "handler/server/innodb_settings.h"
#include "plugin/default_sizes.h"
#include "plugin/kept_settings.h"
#include "plugin/reading/role_variable.h"
#include "plugin/s3_keys.h"
#include "plugin/snapshots/snapshot_schedule.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {
namespace {

constexpr unsigned long long kMiB = 1024ULL * 1024;
constexpr unsigned long long kGiB = 1024 * kMiB;
constexpr unsigned kRetentionMax = 366 * 86400;
constexpr unsigned long long kHistoryBytesDefault = 100 * kGiB, kHistoryBytesMax = 1ULL << 60;

// The position of "auto" in durability_names. The other positions there are the numbers ATOLL_DURABILITY_*.
constexpr unsigned long kDurabilityAuto = 3;
const char *durability_names[] = {"local", "async", "sync", "auto", nullptr};
TYPELIB durability_typelib = {array_elements(durability_names) - 1, "", durability_names, nullptr};

// The positions in this list are the numbers of lsm::Algorithm.
const char *compression_names[] = {"none", "lz4", "zstd", "zlib", nullptr};
TYPELIB compression_typelib = {array_elements(compression_names) - 1, "", compression_names, nullptr};

// The positions in this list are the values of role_value.
constexpr unsigned long kReader = 1;
const char *role_names[] = {"writer", "reader", nullptr};
TYPELIB role_typelib = {array_elements(role_names) - 1, "", role_names, nullptr};
unsigned long role_value;

char *url_value, *endpoint_value, *region_value, *access_key_value, *secret_key_value, *session_token_value,
    *ca_file_value, *addressing_value, *sse_value, *sse_kms_key_id_value;
engine::Settings live;
// Serializes SET GLOBAL of the settings of the history and suspend_history(): when both come at the same
// time, the later one gives the store the values of both.
Mutex history_mutex;
bool is_history_suspended ATOLL_GUARDED_BY(history_mutex) = false;
unsigned int history_grace_s;  // for how long a longer retention still holds when it is shortened
unsigned applied_retention_s ATOLL_GUARDED_BY(history_mutex) = 0;  // what the store was told last
char take_over_value, bound_heap_value;
char *snapshot_schedule_value, *mask_file_value;

// What atoll_durability=auto stands for. Set once, by take_settings().
unsigned long automatic_durability = ATOLL_DURABILITY_LOCAL;

void update_store_limits() {
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return;
  atoll_store_set_durability(running->store(), static_cast<uint8_t>(live.durability), live.lag_ms_max,
                             live.lag_bytes_max);
}

// The retention that holds now; none while the history is suspended.
unsigned retention_now(const engine::Engine &running) ATOLL_REQUIRES(history_mutex) {
  return is_history_suspended ? 0 : kept_retention(running.store(), live.history_retention_s);
}

// Tells the store how much history to keep.
void apply_history() {
  const MutexLock lock(history_mutex);
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return;
  applied_retention_s = retention_now(*running);
  atoll_store_set_history(running->store(), applied_retention_s, live.history_bytes_max);
}

int check_role(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_role_change(thd, role_typelib, value, static_cast<unsigned long *>(save));
}

int check_history_retention(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const uint32_t wanted =
      static_cast<uint32_t>(number_in(thd, "atoll_history_retention", value, 0, kRetentionMax));
  *static_cast<unsigned int *>(save) = wanted;
  return keep_in_bucket(&wanted, nullptr, nullptr, history_grace_s);
}

void update_history_retention(MYSQL_THD thd, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned int *>(variable) = *static_cast<const unsigned int *>(value);
  apply_history();
  tell_of_grace(thd);
}

int check_history_max_bytes(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const uint64_t wanted = number_in(thd, "atoll_history_max_bytes", value, kMiB, kHistoryBytesMax);
  *static_cast<unsigned long long *>(save) = wanted;
  return keep_in_bucket(nullptr, &wanted, nullptr, history_grace_s);
}

void update_history_max_bytes(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  apply_history();
}

void update_cache_size(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  const engine::Engine *running = engine::running_writer();
  if (running != nullptr) atoll_store_set_cache_bytes(running->store(), running->fitting_cache_bytes());
}

void update_backlog_max(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  const engine::Engine *running = engine::running_writer();
  if (running != nullptr)
    atoll_store_set_backlog_bytes_max(running->store(), running->fitting_backlog_bytes());
}

void update_block_cache_size(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  if (const engine::Engine *running = engine::running())
    running->database()->set_block_cache_bytes(live.block_cache_bytes);
}

void update_transaction_memory(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  if (const engine::Engine *running = engine::running())
    running->transactions()->set_transaction_memory(live.transaction_memory_bytes);
}

void update_durability(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  const unsigned long chosen = *static_cast<const unsigned long *>(value);
  *static_cast<unsigned long *>(variable) = chosen == kDurabilityAuto ? automatic_durability : chosen;
  update_store_limits();
}

void update_lag_ms(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned int *>(variable) = *static_cast<const unsigned int *>(value);
  update_store_limits();
}

void update_lag_bytes(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *value) {
  *static_cast<unsigned long long *>(variable) = *static_cast<const unsigned long long *>(value);
  update_store_limits();
}

int check_snapshot_schedule(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char buffer[256];
  int length = sizeof(buffer);
  const char *text = value->val_str(value, buffer, &length);
  if (text == nullptr || !parse_snapshot_schedule({text, static_cast<size_t>(length)})) return 1;
  const char *kept = thd_strmake(thd, text, static_cast<size_t>(length));
  *static_cast<const char **>(save) = kept;
  return keep_in_bucket(nullptr, nullptr, kept, history_grace_s);
}

template <auto kHook>
constexpr auto guarded_hook = guarded_function<kHook, handler::fails>;
template <auto kCheck>
constexpr auto guarded_check = guarded_function<kCheck, handler::fails_by<1>>;

// ---- The bucket: read at start; only the keys may change later ----

MYSQL_SYSVAR_STR(url, url_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "Where the tables live: file:///absolute/directory or s3://bucket/prefix. "
                 "Default: file:// in the directory atoll_bucket of the data directory",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_STR(s3_endpoint, endpoint_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "S3 server: host:port or http(s)://host:port. Default: the provider's own for the region",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_STR(s3_region, region_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "Region of the bucket. Default: the one that the server tells, else us-east-1", nullptr,
                 nullptr, "");
MYSQL_SYSVAR_STR(s3_access_key, access_key_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                 "Access key, shown masked. A new one is used when atoll_s3_secret_key has been set, too. "
                 "Default: credentials of the environment, the profile or the role",
                 check_access_key, update_waiting_key, "");
MYSQL_SYSVAR_STR(s3_secret_key, secret_key_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                 "Secret key that belongs to atoll_s3_access_key, shown masked", check_secret_key,
                 update_secret_key, "");
MYSQL_SYSVAR_STR(s3_session_token, session_token_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                 "Token of temporary credentials, shown masked", check_session_token, update_waiting_key, "");
MYSQL_SYSVAR_STR(s3_ca_file, ca_file_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "PEM file of certificate authorities that are trusted for https, beside the system's",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_STR(s3_addressing, addressing_value,
                 PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "Where the bucket's name stands in a URL: path (https://host/bucket), virtual "
                 "(https://bucket.host), auto (virtual with Amazon, path with others)",
                 nullptr, nullptr, "auto");
MYSQL_SYSVAR_STR(s3_sse, sse_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "Encryption that the provider is asked for with every upload: AES256 (SSE-S3) or aws:kms "
                 "(SSE-KMS). Default: what the bucket does by itself",
                 nullptr, nullptr, "");
MYSQL_SYSVAR_STR(s3_sse_kms_key_id, sse_kms_key_id_value,
                 PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
                 "Key for atoll_s3_sse=aws:kms. Default: the key service's default key", nullptr, nullptr,
                 "");
MYSQL_SYSVAR_BOOL(
    take_over, take_over_value, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "At start, take the bucket from another server that is still running: that one turns read-only. "
    "OFF: refuse to start while another server owns the bucket",
    nullptr, nullptr, 0);
MYSQL_SYSVAR_ENUM(
    role, role_value, PLUGIN_VAR_RQCMDARG,
    "writer: this server owns the database in the bucket. reader: it shows what the writer has "
    "in the bucket, follows it by itself, and changes nothing. SET GLOBAL makes a writer of a reader",
    guarded_check<check_role>, nullptr, 0, &role_typelib);
MYSQL_SYSVAR_UINT(request_timeout, live.request_timeout_s, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                  "Seconds one request to the bucket may take, first byte to last, before it is repeated",
                  nullptr, nullptr, 30, 1, 600, 0);

// ---- Durability ----

MYSQL_SYSVAR_ENUM(
    durability, live.durability, PLUGIN_VAR_RQCMDARG,
    "What COMMIT promises. local: on local disk. async: on local disk, and in the bucket within "
    "atoll_lag_max_ms and atoll_lag_max_bytes, beyond which commits wait. sync: in the bucket. "
    "auto: local with a file:// bucket, async otherwise",
    nullptr, guarded_hook<update_durability>, kDurabilityAuto, &durability_typelib);
MYSQL_SYSVAR_UINT(lag_max_ms, live.lag_ms_max, PLUGIN_VAR_RQCMDARG,
                  "Milliseconds the bucket may stay behind local commits with atoll_durability=async",
                  nullptr, guarded_hook<update_lag_ms>, 2000, 100, 3600000, 0);
MYSQL_SYSVAR_ULONGLONG(lag_max_bytes, live.lag_bytes_max, PLUGIN_VAR_RQCMDARG,
                       "Bytes of log the bucket may stay behind local commits with atoll_durability=async",
                       nullptr, guarded_hook<update_lag_bytes>, 64 * kMiB, kMiB, 1024 * kGiB, 0);
MYSQL_SYSVAR_UINT(
    lag_wait_timeout, live.lag_wait_timeout_s, PLUGIN_VAR_RQCMDARG,
    "Seconds a commit or DDL statement waits for a bucket that lags too much before it reports so", nullptr,
    nullptr, 300, 1, 86400, 0);
MYSQL_SYSVAR_UINT(
    flush_log_at_trx_commit, live.flush_log_at_trx_commit, PLUGIN_VAR_RQCMDARG,
    "1: sync the local log at each commit. 0 and 2: write it at each commit, sync it each second", nullptr,
    nullptr, 1, 0, 2, 0);
MYSQL_SYSVAR_STR(
    snapshot_schedule, snapshot_schedule_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
    "Snapshots to make by themselves, and how many of each to keep, e.g. hourly 24, daily 7; also weekly "
    "and monthly. Empty: none",
    guarded_check<check_snapshot_schedule>, nullptr, "");
MYSQL_SYSVAR_UINT(
    history_retention, live.history_retention_s, PLUGIN_VAR_RQCMDARG,
    "Seconds for which the bucket keeps what it needs to have each commit's moment again (atollctl "
    "restore --at, clone --at). 0: no history",
    guarded_check<check_history_retention>, guarded_hook<update_history_retention>, 0, 0, kRetentionMax, 0);
MYSQL_SYSVAR_UINT(history_grace, history_grace_s, PLUGIN_VAR_RQCMDARG,
                  "Seconds for which the bucket still keeps the history when atoll_history_retention becomes "
                  "shorter. 0: it goes at once",
                  nullptr, nullptr, 3600, 0, 7 * 86400, 0);
MYSQL_SYSVAR_ULONGLONG(history_max_bytes, live.history_bytes_max, PLUGIN_VAR_RQCMDARG,
                       "Bytes that may stay in the bucket only because of atoll_history_retention. Beyond, "
                       "the history becomes shorter",
                       guarded_check<check_history_max_bytes>, guarded_hook<update_history_max_bytes>,
                       kHistoryBytesDefault, kMiB, kHistoryBytesMax, 0);
MYSQL_SYSVAR_STR(
    mask_file, mask_file_value, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY | PLUGIN_VAR_MEMALLOC,
    "File of SQL statements that run once in a clone, before anybody can open its tables. Empty: none",
    nullptr, nullptr, "");
MYSQL_SYSVAR_BOOL(read_only, live.is_read_only, PLUGIN_VAR_OPCMDARG,
                  "Refuse every change of ATOLL tables, for all users", nullptr, nullptr, 0);

// ---- Memory, disk, processors ----

MYSQL_SYSVAR_BOOL(bound_heap, bound_heap_value, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                  "Make the C library give freed memory back to the system sooner, for the whole server. For "
                  "containers and small machines",
                  nullptr, nullptr, 0);
MYSQL_SYSVAR_ULONGLONG(
    cache_size, live.cache_bytes, PLUGIN_VAR_RQCMDARG,
    "Bytes of local disk that may hold copies of what the bucket holds (not used with file://)", nullptr,
    guarded_hook<update_cache_size>, 10 * kGiB, 16 * kMiB, 1ULL << 50, kMiB);
MYSQL_SYSVAR_ULONGLONG(upload_backlog_max, live.backlog_bytes_max, PLUGIN_VAR_RQCMDARG,
                       "Bytes of finished table files that may wait on local disk for their upload. Beyond, "
                       "what makes such files "
                       "waits: flushes, compactions, bulk loads, and in the end commits",
                       nullptr, guarded_hook<update_backlog_max>, kGiB, kMiB, 1ULL << 50, kMiB);
MYSQL_SYSVAR_ULONGLONG(
    block_cache_size, live.block_cache_bytes, PLUGIN_VAR_RQCMDARG,
    "Bytes of memory for uncompressed blocks. Default: a quarter of the memory, 64 MiB to 1 GiB", nullptr,
    guarded_hook<update_block_cache_size>, default_block_cache_size(), 8 * kMiB, 1ULL << 44, kMiB);
MYSQL_SYSVAR_ULONGLONG(
    transaction_memory, live.transaction_memory_bytes, PLUGIN_VAR_RQCMDARG,
    "Bytes of memory for what one transaction has written and locked. Beyond half of it, changes go to local "
    "disk; beyond a quarter, row locks become locks on ranges of rows, which may have more rows in them. "
    "Default: a sixteenth of the memory, at least 64 MiB and at most 1 GiB",
    nullptr, guarded_hook<update_transaction_memory>, default_transaction_memory(), kMiB, 1024 * kGiB, kMiB);
MYSQL_SYSVAR_ENUM(compression, live.compression_algorithm, PLUGIN_VAR_RQCMDARG,
                  "Compression of tables created without the COMPRESSION option: none, lz4, zstd or zlib",
                  nullptr, nullptr, static_cast<unsigned long>(lsm::Algorithm::kZstd), &compression_typelib);
MYSQL_SYSVAR_ULONGLONG(
    shared_table_max, live.shared_table_bytes_max, PLUGIN_VAR_RQCMDARG,
    "Bytes that a table or partition may take in the column family that small tables share. One that becomes "
    "larger moves to a family of its own, in the background, while it is used. 0: none moves",
    nullptr, nullptr, 4 * kMiB, 0, 1024 * kGiB, 0);
MYSQL_SYSVAR_UINT(compression_level, live.compression_level, PLUGIN_VAR_RQCMDARG,
                  "Level of atoll_compression: 1 to 22 for zstd, 1 to 9 for zlib; 0: the algorithm's default",
                  nullptr, nullptr, 0, 0, 22, 0);

// ---- Per session ----

// Also InnoDB's default.
constexpr unsigned long kDefaultLockWaitTimeoutS = 50;
MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
                   "Seconds to wait for a row lock before the statement fails. 0: do not wait. With 50, the "
                   "default, innodb_lock_wait_timeout holds",
                   nullptr, nullptr, kDefaultLockWaitTimeoutS, 0, 1073741824, 0);
MYSQL_THDVAR_BOOL(
    snapshot_isolation, PLUGIN_VAR_OPCMDARG,
    "A transaction that would change a row which another one changed after its snapshot fails with a "
    "deadlock error, instead of changing the newest version",
    nullptr, nullptr, 0);
MYSQL_THDVAR_BOOL(ignore_foreign_keys, PLUGIN_VAR_OPCMDARG,
                  "Ignore FOREIGN KEY clauses, with a warning. OFF: they make constraints", nullptr, nullptr,
                  0);
MYSQL_THDVAR_UINT(
    scan_threads, PLUGIN_VAR_RQCMDARG,
    "Threads that may work on one scan or index build. Default: processor cores, at most 8. 1: serial",
    nullptr, nullptr, default_scan_threads(), 1, 64, 0);

st_mysql_sys_var *variables[] = {MYSQL_SYSVAR(url),
                                 MYSQL_SYSVAR(s3_endpoint),
                                 MYSQL_SYSVAR(s3_region),
                                 MYSQL_SYSVAR(s3_access_key),
                                 MYSQL_SYSVAR(s3_secret_key),
                                 MYSQL_SYSVAR(s3_session_token),
                                 MYSQL_SYSVAR(s3_ca_file),
                                 MYSQL_SYSVAR(s3_addressing),
                                 MYSQL_SYSVAR(s3_sse),
                                 MYSQL_SYSVAR(s3_sse_kms_key_id),
                                 MYSQL_SYSVAR(take_over),
                                 MYSQL_SYSVAR(role),
                                 MYSQL_SYSVAR(request_timeout),
                                 MYSQL_SYSVAR(durability),
                                 MYSQL_SYSVAR(lag_max_ms),
                                 MYSQL_SYSVAR(lag_max_bytes),
                                 MYSQL_SYSVAR(lag_wait_timeout),
                                 MYSQL_SYSVAR(flush_log_at_trx_commit),
                                 MYSQL_SYSVAR(read_only),
                                 MYSQL_SYSVAR(cache_size),
                                 MYSQL_SYSVAR(upload_backlog_max),
                                 MYSQL_SYSVAR(block_cache_size),
                                 MYSQL_SYSVAR(bound_heap),
                                 MYSQL_SYSVAR(transaction_memory),
                                 MYSQL_SYSVAR(compression),
                                 MYSQL_SYSVAR(compression_level),
                                 MYSQL_SYSVAR(shared_table_max),
                                 MYSQL_SYSVAR(snapshot_schedule),
                                 MYSQL_SYSVAR(history_retention),
                                 MYSQL_SYSVAR(history_grace),
                                 MYSQL_SYSVAR(history_max_bytes),
                                 MYSQL_SYSVAR(mask_file),
                                 MYSQL_SYSVAR(lock_wait_timeout),
                                 MYSQL_SYSVAR(snapshot_isolation),
                                 MYSQL_SYSVAR(ignore_foreign_keys),
                                 MYSQL_SYSVAR(scan_threads),
                                 nullptr};

std::string text_of(const char *value) { return value == nullptr ? std::string() : std::string(value); }

std::string take_secret(char **variable) {
  std::string secret = text_of(*variable);
  if (!secret.empty()) {
    std::fill_n(*variable, secret.size(), '\0');
    show_as(variable, kKeyMask);
  }
  return secret;
}

std::string data_directory() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(mysql_real_data_home, error);
  return error ? std::string(mysql_real_data_home) : path.string();
}

}  // namespace

st_mysql_sys_var **system_variables() { return variables; }

engine::StartSettings take_settings() {
  engine::StartSettings settings;
  const std::string data_dir = data_directory();
  settings.base_dir = data_dir + "/#atoll";
  settings.url = text_of(url_value);
  if (settings.url.empty()) settings.url = "file://" + data_dir + "/atoll_bucket";
  show_as(&url_value, settings.url.c_str());
  settings.is_local_bucket = settings.url.starts_with("file://");
  settings.endpoint = text_of(endpoint_value);
  settings.region = text_of(region_value);
  settings.ca_file = text_of(ca_file_value);
  settings.addressing = text_of(addressing_value);
  settings.sse = text_of(sse_value);
  settings.sse_kms_key_id = text_of(sse_kms_key_id_value);
  settings.access_key = take_secret(&access_key_value);
  settings.secret_key = take_secret(&secret_key_value);
  settings.session_token = take_secret(&session_token_value);
  settings.take_over = take_over_value != 0;
  settings.is_reader = role_value == kReader;
  settings.mask_file = text_of(mask_file_value);
  automatic_durability = settings.is_local_bucket ? ATOLL_DURABILITY_LOCAL : ATOLL_DURABILITY_ASYNC;
  if (live.durability == kDurabilityAuto) live.durability = automatic_durability;
  return settings;
}

void forget_secrets(engine::StartSettings *settings) {
  for (std::string *secret : {&settings->access_key, &settings->secret_key, &settings->session_token}) {
    std::fill(secret->begin(), secret->end(), '\0');
    secret->clear();
  }
}

const engine::Settings &settings() { return live; }

void suspend_history(bool suspended) {
  {
    const MutexLock lock(history_mutex);
    is_history_suspended = suspended;
  }
  apply_history();
}

namespace {

KeptValues default_kept_settings() { return {0, kHistoryBytesDefault, ""}; }

KeptValues shown_settings() {
  return {live.history_retention_s, live.history_bytes_max, snapshot_schedule()};
}

}  // namespace

void use_kept_settings() {
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return;
  const KeptValues configured = shown_settings();
  const KeptValues used = merge_with_bucket(running->store(), configured, default_kept_settings());
  mysql_mutex_lock(&LOCK_global_system_variables);
  live.history_retention_s = used.retention_s;
  live.history_bytes_max = used.bytes_max;
  if (used.schedule != configured.schedule) show_as(&snapshot_schedule_value, used.schedule.c_str());
  mysql_mutex_unlock(&LOCK_global_system_variables);
  apply_history();
}

void tend_kept_settings() {
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return;
  store_what_is_shown(running->store(), shown_settings(), default_kept_settings(), history_grace_s);
  {
    const MutexLock lock(history_mutex);
    if (retention_now(*running) == applied_retention_s) return;
  }
  apply_history();
}

std::string url_in_use() { return text_of(url_value); }

const char *durability_name() { return durability_names[live.durability]; }

bool wants_bounded_heap() { return bound_heap_value != 0; }

std::string snapshot_schedule() {
  mysql_mutex_lock(&LOCK_global_system_variables);
  std::string text = snapshot_schedule_value == nullptr ? "" : snapshot_schedule_value;
  mysql_mutex_unlock(&LOCK_global_system_variables);
  return text;
}

namespace {

// Applications set innodb_lock_wait_timeout, because they do not know the variable of ATOLL.
unsigned long lock_wait_timeout_s(THD *thd) {
  unsigned long timeout_s = THDVAR(thd, lock_wait_timeout);
  if (thd == nullptr) return timeout_s;
  if (timeout_s == kDefaultLockWaitTimeoutS)
    timeout_s = handler::innodb_lock_wait_timeout_s(thd).value_or(timeout_s);
  return std::min<unsigned long>(timeout_s, thd->variables.lock_wait_timeout);
}

}  // namespace

engine::StatementSettings statement_settings(void *user) {
  THD *thd = static_cast<THD *>(user);
  engine::StatementSettings settings;
  settings.lock_wait_timeout_s = lock_wait_timeout_s(thd);
  settings.snapshot_isolation = THDVAR(thd, snapshot_isolation) != 0;
  settings.ignores_foreign_keys = THDVAR(thd, ignore_foreign_keys) != 0;
  settings.scan_threads = THDVAR(thd, scan_threads);
  return settings;
}

}  // namespace atoll::plugin
