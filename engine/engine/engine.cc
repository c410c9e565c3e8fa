// Opens the store, the database, the transactions and the catalog, in this order, and closes them.
#include "engine/engine.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/border/border.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "bridge/result.h"

namespace atoll::engine {
namespace {

// The time for publishing at shutdown. With this limit, all steps of a shutdown together end within 10 s,
// however the bucket behaves. What is not published by then stays on local disk.
constexpr uint32_t kCloseTimeoutMs = 4000;

// The most bytes of memory for the uncommitted writes of one transaction: a quarter of the memory, at least 1
// GiB. That is enough for ten million small rows. A larger transaction fails with a clear error before the
// system would kill the server for lack of memory.
// The upload backlog gets at most this part of the disk. A commit needs the rest: the part cache has up to a
// half, and leaves a quarter of a small disk free (crates/objstore/src/cache/room.rs).
constexpr uint64_t kBacklogPart = 8;
constexpr uint64_t kBacklogBytesMin = 1 << 20;  // as the smallest value of atoll_upload_backlog_max
// The directory below base_dir with all local files of a reader except its part cache.
constexpr char kReaderDirectory[] = "/reader";

uint64_t transaction_bytes_max() { return std::max<uint64_t>(memory_limit_bytes() / 4, 1ull << 30); }

// Called after a step of closing. If the step has failed, logs what this means for the data.
void log_close(const Status &status, const char *step) {
  if (status.ok()) return;
  if (status.code() == Code::kFenced)
    return log_warning(
        "closed. Another server owns the bucket; changes that this one had not uploaded are not in it");
  log_warning(std::string(step) + ": " + status.message());
}

// The size of the local disk, if the disk can be smaller than the database. 0: the bucket is on the same
// disk, or the system does not tell.
uint64_t disk_bytes(const std::string &base_dir, bool is_local_bucket) {
  struct statvfs disk {};
  if (is_local_bucket || ::statvfs(base_dir.c_str(), &disk) != 0) return 0;
  return static_cast<uint64_t>(disk.f_blocks) * disk.f_frsize;
}

// Returns the size of the part cache: `wanted`, but at most half of the disk, because other files need room
// there too.
uint64_t fitting_bytes(uint64_t wanted, const std::string &base_dir, bool is_local_bucket) {
  const uint64_t half_of_disk = disk_bytes(base_dir, is_local_bucket) / 2;
  if (half_of_disk == 0 || wanted <= half_of_disk) return wanted;
  log_warning("atoll_cache_size=" + std::to_string(wanted) + " is more than half of the disk of " + base_dir +
              "; " + std::to_string(half_of_disk) + " bytes are used. Set a smaller value");
  return half_of_disk;
}

int wish_of_this_thread() {
  if (is_interrupted()) return ATOLL_WISH_STOP;
  return must_make_way() ? ATOLL_WISH_MAKE_WAY : ATOLL_WISH_GO_ON;
}

// Sets pointers in `config` to the texts of `start`, which must exist for as long as `config` is used.
void name_bucket(const StartSettings &start, atoll_store_config *config) {
  config->url = start.url.c_str();
  config->endpoint = start.endpoint.c_str();
  config->region = start.region.c_str();
  config->access_key = start.access_key.c_str();
  config->secret_key = start.secret_key.c_str();
  config->session_token = start.session_token.c_str();
  config->ca_file = start.ca_file.c_str();
  config->addressing = start.addressing.c_str();
  config->sse = start.sse.c_str();
  config->sse_kms_key_id = start.sse_kms_key_id.c_str();
  // A bucket in the data directory belongs to the server that runs on this directory. No two servers run on
  // one data directory, so there is no other owner to wait for.
  config->take_over = start.take_over || !start.bucket_beside_databases().empty() ? 1 : 0;
}

void set_limits(const Settings &settings, atoll_store_config *config) {
  config->lag_bytes_max = settings.lag_bytes_max;
  config->lag_ms_max = settings.lag_ms_max;
  config->request_timeout_ms = settings.request_timeout_s * 1000;
  config->durability = static_cast<uint8_t>(settings.durability);
  config->history_retention_s = settings.history_retention_s;
  config->history_bytes_max = settings.history_bytes_max;
}

}  // namespace

Engine::Engine(const Options &options)
    : settings_(options.settings),
      statement_settings_(options.statement_settings),
      url_(options.start->url),
      base_dir_(options.start->base_dir),
      is_local_bucket_(options.start->is_local_bucket) {}

Engine::~Engine() { close(); }

Status Engine::open(const Options &options, std::unique_ptr<Engine> *out, bool *has_claimed) {
  std::unique_ptr<Engine> engine(new Engine(options));
  const bool is_reader = options.start->is_reader;
  Status status = is_reader ? Status::Ok() : engine->open_store(options);
  *has_claimed = engine->store_ != nullptr;
  const std::string base_dir = options.start->base_dir + (is_reader ? kReaderDirectory : "");
  if (status.ok()) status = guarded([&] { return engine->open_database(base_dir); });
  if (status.ok() && is_reader) status = guarded([&] { return engine->open_views(options); });
  if (!status.ok()) return status;
  engine->gate_ =
      std::make_unique<CommitGate>(engine->store_, engine->database(), options.settings, options.warn);
  *out = std::move(engine);
  return Status::Ok();
}

// Calls `open` with what the bucket's side of the engine must know.
Status Engine::with_config(const Options &options, const std::string &local_dir,
                           const std::function<Status(const atoll_store_config &)> &open) const {
  const StartSettings &start = *options.start;
  const std::string cache_dir = start.base_dir + "/cache";
  atoll_store_config config{};
  name_bucket(start, &config);
  set_limits(*options.settings, &config);
  config.local_dir = local_dir.c_str();
  config.cache_dir = cache_dir.c_str();
  config.server_id = options.server_id.c_str();
  config.cache_bytes = fitting_cache_bytes();
  config.backlog_bytes_max = fitting_backlog_bytes();
  config.log = &log_at_level;
  config.wish = &wish_of_this_thread;
  return open(config).with("opening the bucket of atoll_url = " + start.url);
}

Status Engine::open_store(const Options &options) {
  return with_config(options, options.start->base_dir + "/db", [&](const atoll_store_config &config) {
    const Status status = bridge::to_status(atoll_store_open(options.opener, &config, &store_));
    if (!status.ok()) store_ = nullptr;
    return status;
  });
}

// A reader and a writer on the same data directory, one after the other, have the same part cache. So what
// was read before is still on the local disk after a promotion.
Status Engine::open_views(const Options &options) {
  const std::string base_dir = options.start->base_dir + kReaderDirectory;
  const auto open = [&](const atoll_store_config &config) {
    return Views::open(config, database_.get(), base_dir + "/views", &views_);
  };
  ATOLL_RETURN_IF_ERROR(with_config(options, base_dir + "/none", open));
  ViewPtr first;
  ATOLL_RETURN_IF_ERROR(views_->take(&first).with("reading the newest state of " + options.start->url));
  views_->show(std::move(first));
  views_->settle();
  return Status::Ok();
}

Status Engine::open_database(const std::string &base_dir) {
  if (store_ == nullptr) {  // the database of a reader has nothing that a restart needs
    (void)remove_tree(base_dir);
    std::error_code ignored;
    std::filesystem::create_directory(base_dir, ignored);
  }
  lsm::DatabaseOptions options;
  options.local_dir = base_dir + "/db";
  options.temp_dir = base_dir + "/temp";
  options.store = store_;
  options.block_cache_bytes = settings_->block_cache_bytes;
  options.disk_bytes = disk_bytes(base_dir, is_local_bucket_);
  options.default_compression = settings_->default_compression();
  options.log = [](int level, const std::string &message) { log_at_level(level, message.c_str()); };
  ATOLL_RETURN_IF_ERROR(lsm::Database::open(options, &database_).with("opening the local database"));
  ATOLL_RETURN_IF_ERROR(txn::Manager::open(database_.get(), database_.get(), &transactions_));
  if (store_ != nullptr)
    transactions_->set_wal_position([store = store_] { return atoll_store_wal_position(store); });
  transactions_->set_write_bytes_max(transaction_bytes_max());
  transactions_->set_transaction_memory(settings_->transaction_memory_bytes);
  mounts_ = std::make_unique<Mounts>(store_, database_.get(), base_dir + "/past");
  return catalog::Catalog::open(database_.get(), database_.get(), &catalog_);
}

// Takes at most kCloseTimeoutMs, plus the time for flushing memtables to local disk.
void Engine::close() {
  if (store_ != nullptr) stop_waiting();
  views_.reset();
  mounts_.reset();
  catalog_.reset();
  transactions_.reset();
  if (database_) {
    log_close(database_->shut_down(), "the local database was not flushed; the next start reads its log");
    database_.reset();
  }
  if (store_ == nullptr) return;
  const Status closed = bridge::to_status(atoll_store_close(store_, kCloseTimeoutMs));
  store_ = nullptr;
  log_close(closed,
            "closed without publishing everything; the rest is on local disk and is published after the next "
            "start. A server on another machine would not have it");
}

StatementSettings Engine::statement_settings(void *user) const {
  return statement_settings_ == nullptr ? StatementSettings() : statement_settings_(user);
}

Status Engine::may_write() const {
  if (views_) return views_->why_read_only();
  if (settings_->is_read_only != 0)
    return Status(Code::kReadOnly,
                  "atoll_read_only is set on this server. SET GLOBAL atoll_read_only=OFF to allow changes");
  return bridge::to_status(atoll_store_may_write(store_));
}

void Engine::read_stats(atoll_store_stats *out) const {
  if (views_) return views_->read_stats(out);
  atoll_store_get_stats(store_, out);
}

std::vector<lsm::Gtid> Engine::newest_gtids() const {
  if (views_) {
    const ViewPtr settled = views_->settled();
    return settled ? settled->gtids() : std::vector<lsm::Gtid>();
  }
  std::vector<lsm::Gtid> gtids;
  atoll_store_newest_gtids(
      store_, &gtids, [](void *context, uint32_t domain, uint32_t server, uint64_t sequence) {
        static_cast<std::vector<lsm::Gtid> *>(context)->push_back({domain, server, sequence});
      });
  return gtids;
}

uint64_t Engine::fitting_cache_bytes() const {
  return fitting_bytes(settings_->cache_bytes, base_dir_, is_local_bucket_);
}

// No message tells of a smaller backlog, because the default is for large disks, and nobody has to change it.
uint64_t Engine::fitting_backlog_bytes() const {
  const uint64_t part_of_disk = disk_bytes(base_dir_, is_local_bucket_) / kBacklogPart;
  const uint64_t wanted = settings_->backlog_bytes_max;
  return part_of_disk == 0 ? wanted : std::min<uint64_t>(wanted, std::max(part_of_disk, kBacklogBytesMin));
}

}  // namespace atoll::engine
