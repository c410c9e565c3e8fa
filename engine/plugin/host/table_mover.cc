// See table_mover.h.
#include "handler/server.h"

#include "plugin/host/table_mover.h"

#include <mysqld.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "base/interrupt.h"
#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/outgrown.h"
#include "handler/ddl/table_name.h"
#include "plugin/host/local_sql.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {
namespace {

// A load can write 30 MB a second into one table, and a move reads and writes all rows that the table has
// when the move begins. So the mover checks often whether tables have grown, to move a table while it is
// small.
constexpr auto kLookEach = std::chrono::milliseconds(100);
// Reading the sizes of thousands of tables takes long. Afterwards the mover rests for five times as long as
// that took, so it uses at most a sixth of one core.
constexpr int kRestParts = 5;
// The wait before a failed move is tried again; it doubles with each failure.
constexpr auto kRetryMin = std::chrono::seconds(10), kRetryMax = std::chrono::seconds(3600);
// The mover reads the sizes of the tables in the shared family only when the family has grown by a quarter of
// atoll_shared_table_max.
constexpr uint64_t kGrowthParts = 4;

// The bucket counts as unreachable when table files have waited for their upload for this long and no byte
// was uploaded. Large files are uploaded in pieces of 8 MiB, and a connection of 1 MB/s uploads a piece in
// less time.
constexpr auto kBucketPatience = std::chrono::seconds(10);

// Settings of the session that moves a table, in place of the server's own. The session waits at most one
// second for the metadata lock of the table, because later statements on the table wait until the session has
// the lock or gives it up.
constexpr const char *kSession[] = {
    "SET NAMES utf8mb4",
    "SET SESSION sql_log_bin = 0, lock_wait_timeout = 1, max_statement_time = 0, sql_mode = '', "
    "tx_read_only = 0, system_versioning_alter_history = KEEP",
};

std::atomic<uint64_t> moved_count{0};  // tables and partitions that were moved since the start of the server

// Whether the error means that a table of this kind cannot be moved.
bool is_final(unsigned error) {
  return error == ER_ALTER_OPERATION_NOT_SUPPORTED || error == ER_ALTER_OPERATION_NOT_SUPPORTED_REASON;
}

}  // namespace

TableMover::TableMover() : background_([this](uint64_t) { look(); }, kLookEach) {}

bool TableMover::Bucket::is_away(const engine::Engine *running) {
  atoll_store_stats stats{};
  atoll_store_get_stats(running->store(), &stats);
  const Clock::time_point now = Clock::now();
  if (stats.upload_backlog_files == 0 || stats.bytes_uploaded != bytes_uploaded_) {
    bytes_uploaded_ = stats.bytes_uploaded;
    moved_on_ = now;
  }
  return now - moved_on_ > kBucketPatience;
}

uint64_t TableMover::moved() { return moved_count; }

void TableMover::look() {
  engine::Engine *running = engine::running();
  const uint64_t bytes_max = settings().shared_table_bytes_max;
  if (running == nullptr || bytes_max == 0 || !mysqld_server_started || abort_loop ||
      !engine::may_write().ok() || bucket_.is_away(running))
    return;
  const Clock::time_point begin = Clock::now();
  if (begin < not_before_ || !is_worth_looking(running, bytes_max)) return;
  const std::vector<Table> tables = outgrown(running, bytes_max);
  const Clock::time_point end = Clock::now();
  not_before_ = end + kRestParts * (end - begin);
  if (is_interrupted()) return;
  forget_due_retries_but(tables);
  for (const Table &table : tables) {
    if (is_interrupted() || bucket_.is_away(running)) return;
    move(running, table, bytes_max);
  }
}

// Removes due retries of tables that are not in `outgrown`: a user has dropped, renamed, emptied or moved
// these tables.
void TableMover::forget_due_retries_but(const std::vector<Table> &outgrown) {
  std::erase_if(retries_, [&outgrown](const auto &retry) {
    return retry.second.due <= Clock::now() &&
           !std::binary_search(outgrown.begin(), outgrown.end(), retry.first);
  });
}

bool TableMover::is_worth_looking(engine::Engine *running, uint64_t bytes_max) {
  const uint64_t bytes = running->database()->total_bytes(running->database()->shared_family());
  looked_at_bytes_ = std::min(looked_at_bytes_, bytes);
  const bool has_grown =
      bytes - looked_at_bytes_ > bytes_max / kGrowthParts || looked_with_limit_ != bytes_max;
  const bool is_due = std::any_of(retries_.begin(), retries_.end(),
                                  [](const auto &retry) { return retry.second.due <= Clock::now(); });
  if (has_grown) {
    looked_at_bytes_ = bytes;
    looked_with_limit_ = bytes_max;
  }
  return has_grown || is_due;
}

std::vector<TableMover::Table> TableMover::outgrown(engine::Engine *running, uint64_t bytes_max) const {
  std::set<Table> tables;
  for (const catalog::TablePtr &def : running->catalog()->list("")) {
    if (is_interrupted()) return {};
    if (catalog::is_internal(def->name) || !handler::has_outgrown(*def, bytes_max)) continue;
    Table table{handler::sql_name(def->database),
                handler::sql_name(std::string(catalog::whole_table(def->name)))};
    const auto retry = retries_.find(table);
    if (retry == retries_.end() || retry->second.due <= Clock::now()) tables.insert(std::move(table));
  }
  return {tables.begin(), tables.end()};
}

void TableMover::move(const engine::Engine *running, const Table &table, uint64_t bytes_max) {
  const std::string name = quoted(table.database) + "." + quoted(table.name);
  LocalSql::Outcome outcome;
  uint32_t moved = 0;
  {
    const PatienceScope patience([this, running] { return bucket_.is_away(running); });
    LocalSql sql;
    for (const char *statement : kSession)
      if (outcome.error == 0) outcome = sql.run(statement);
    const handler::MoveOfOutgrown scope(bytes_max);
    if (outcome.error == 0) outcome = sql.run("ALTER TABLE " + name + " FORCE, ALGORITHM=INPLACE, LOCK=NONE");
    moved = scope.moved();
  }
  if (outcome.error != 0) return put_off(table, outcome.error, outcome.message);
  retries_.erase(table);
  if (moved == 0) return;  // the table was emptied meanwhile
  moved_count += moved;
  log_info("table " + name + " has outgrown the family that small tables share, and has one of its own now");
}

void TableMover::put_off(const Table &table, unsigned error, const std::string &message) {
  if (is_interrupted()) return;
  Retry &retry = retries_[table];
  if (error == ER_NO_SUCH_TABLE || error == ER_BAD_TABLE_ERROR) {
    retries_.erase(table);
    return;
  }
  const bool is_first = retry.wait == std::chrono::seconds(0);
  retry.wait = std::clamp(retry.wait * 2, kRetryMin, kRetryMax);
  // Even a move with a final error is tried again, because a user may alter the table, or make another one
  // with the same name.
  if (is_final(error)) retry.wait = kRetryMax;
  retry.due = Clock::now() + retry.wait;
  // A table that is in use, or a bucket that cannot be reached, is worth a message only when it has lasted so
  // long that the wait has reached kRetryMax.
  const bool may_pass = error == ER_LOCK_WAIT_TIMEOUT || error == ER_QUERY_INTERRUPTED;
  const bool is_news = may_pass ? retry.wait == kRetryMax : is_first;
  if (!is_news) return;
  log_warning("table " + quoted(table.database) + "." + quoted(table.name) +
              " has outgrown the family that small tables share, and could not be moved to one of its own: " +
              message + (is_final(error) ? ". It stays there" : ". This is tried again"));
}

}  // namespace atoll::plugin
