// See status.h. The numbers are collected from other folders when a user asks for them; this file counts
// nothing itself.
#include "handler/server.h"

#include <mysql/plugin.h>
#include <mysql/service_thd_alloc.h>

#include <new>
#include <ctime>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bridge/health.h"
#include "bridge/result.h"
#include "engine/bucket_waits.h"
#include "engine/running.h"
#include "engine/waiting.h"
#include "handler/foreign/latest_error.h"
#include "handler/server/callback.h"
#include "handler/session/session.h"
#include "plugin/plugin.h"
#include "plugin/reading/gtid_list.h"
#include "plugin/show/connections.h"
#include "plugin/show/key_owners.h"
#include "plugin/show/status.h"
#include "plugin/sysvars.h"
#include "plugin/host/table_mover.h"

namespace atoll::plugin {
namespace {

// The most transactions and lock waits that SHOW ENGINE ATOLL STATUS lists. A screenful is enough to see a
// problem; a line at the end says when there are more.
constexpr size_t kListedMax = 50;

struct Numbers {
  std::vector<std::pair<std::string, unsigned long long>> counts;
  std::vector<std::pair<std::string, std::string>> texts;
};

// Returns a time in the server's time zone; "" for 0.
std::string time_text(int64_t seconds) {
  if (seconds == 0) return {};
  char text[32];
  const auto time = static_cast<time_t>(seconds);
  tm local;
  localtime_r(&time, &local);
  strftime(text, sizeof(text), "%F %T", &local);
  return text;
}

void add_store(const engine::Engine &running, Numbers *out) {
  atoll_store_stats stats{};
  running.read_stats(&stats);
  atoll_store_health health{};
  if (running.store() != nullptr) atoll_store_get_health(running.store(), &health);
  out->counts.insert(out->counts.end(), {{"epoch", stats.epoch},
                                         {"requests_get", stats.requests_get},
                                         {"requests_put", stats.requests_put},
                                         {"requests_head", stats.requests_head},
                                         {"requests_list", stats.requests_list},
                                         {"requests_delete", stats.requests_delete},
                                         {"request_retries", stats.request_retries},
                                         {"request_errors", stats.request_errors},
                                         {"bytes_downloaded", stats.bytes_downloaded},
                                         {"bytes_uploaded", stats.bytes_uploaded},
                                         {"cache_bytes_used", stats.cache_bytes_used},
                                         {"cache_hits", stats.cache_hits},
                                         {"cache_misses", stats.cache_misses},
                                         {"cache_evictions", stats.cache_evictions},
                                         {"cache_corruptions", stats.cache_corruptions},
                                         {"upload_backlog_files", stats.upload_backlog_files},
                                         {"upload_backlog_bytes", stats.upload_backlog_bytes},
                                         {"publish_lag_ms", stats.publish_lag_ms},
                                         {"wal_lag_ms", stats.wal_lag_ms},
                                         {"wal_lag_bytes", stats.wal_lag_bytes},
                                         {"commits_waiting", engine::BucketWaits::of_process().waiting()},
                                         {"roots_published", stats.roots_published},
                                         {"wal_chunks_shipped", stats.wal_chunks_shipped},
                                         {"files", stats.files},
                                         {"files_bytes", stats.files_bytes},
                                         {"history_bytes", stats.history_bytes},
                                         {"history_seconds", stats.history_s},
                                         {"history_cuts", stats.history_cuts},
                                         {"objects_missing", health.objects_missing},
                                         {"fenced", stats.fenced},
                                         {"trim_disabled", stats.trim_disabled}});
  out->texts.emplace_back("database_uuid", bridge::text_of(stats.database_uuid));
  // While the tables are closed, that is the error that matters.
  const Status ready = engine::ready();
  out->texts.emplace_back("last_error",
                          ready.ok() ? bridge::text_of(stats.last_error) : std::string(ready.message()));
  out->texts.emplace_back("last_error_time", time_text(static_cast<int64_t>(health.last_error_ms / 1000)));
}

void add_views(const engine::Engine &running, Numbers *out) {
  const engine::Views *views = running.views();
  out->texts.emplace_back("role", views == nullptr ? "writer" : "reader");
  const engine::ViewPtr shown = views == nullptr ? nullptr : views->settled();
  if (!shown) return;
  out->counts.insert(out->counts.end(),
                     {{"reader_lag_ms", views->lag_ms()}, {"reader_views", views->count()}});
  out->texts.emplace_back("reader_gtid", gtid_text(shown->gtids()));
  out->texts.emplace_back("reader_commit_time",
                          time_text(static_cast<int64_t>(shown->commit_us() / 1000000)));
  out->texts.emplace_back("reader_writer", views->writer());
}

std::string reader_text(const engine::Views &views) {
  return "reader of " + url_in_use() + ", which " +
         (views.writer().empty() ? std::string("an unknown server") : views.writer()) + " writes; " +
         std::to_string(views.lag_ms()) + " ms behind, GTID position '" +
         gtid_text(engine::running()->newest_gtids()) + "'";
}

void add_transactions(const engine::Engine &running, Numbers *out) {
  const txn::LockTable *locks = running.transactions()->locks();
  const std::vector<txn::TransactionInfo> transactions = running.transactions()->list();
  const txn::WaitingNow waiting = locks->waiting_now();
  unsigned long long prepared = 0, held = 0, writes = 0;
  for (const txn::TransactionInfo &info : transactions) {
    prepared += info.prepared ? 1 : 0;
    held += info.locks;
    writes += info.writes;
  }
  out->counts.insert(out->counts.end(), {{"transactions", transactions.size()},
                                         {"transactions_prepared", prepared},
                                         {"uncommitted_writes", writes},
                                         {"locks_held", held},
                                         {"deadlocks", locks->deadlocks()},
                                         {"lock_waits", locks->waits()},
                                         {"lock_wait_us", locks->wait_us()},
                                         {"lock_waits_current", waiting.count},
                                         {"lock_wait_longest_ms", waiting.longest_ms},
                                         {"tables", running.catalog()->list("").size()},
                                         {"tables_moved", TableMover::moved()}});
}

void add_work(enum_var_type scope, THD *thd, Numbers *out) {
  const handler::Session *session = handler::Session::of(thd, false);
  for (size_t i = 0; i < kWorkKinds; i++) {
    const auto kind = static_cast<WorkKind>(i);
    out->counts.emplace_back("work_" + std::string(work_name(kind)),
                             scope == SHOW_OPT_GLOBAL ? work_of_all(kind)
                             : session == nullptr     ? 0
                                                      : session->work()->count(kind));
  }
}

Numbers collect(enum_var_type scope, THD *thd) {
  Numbers numbers;
  engine::Engine *running = engine::running();
  numbers.counts.emplace_back("running", engine::ready().ok() ? 1 : 0);
  if (running == nullptr) {
    numbers.texts.emplace_back("last_error", engine::ready().message());
    numbers.texts.emplace_back("last_error_time", time_text(engine::not_running_since_s()));
    return numbers;
  }
  add_store(*running, &numbers);
  add_views(*running, &numbers);
  add_transactions(*running, &numbers);
  for (const auto &[name, value] : running->database()->counters()) numbers.counts.emplace_back(name, value);
  add_work(scope, thd, &numbers);
  return numbers;
}

char *keep(THD *thd, const std::string &text) { return thd_strmake(thd, text.data(), text.size()); }

// Makes a new list of status variables in the memory of the statement, because the length of the list is not
// known before.
void list_all(THD *thd, st_mysql_show_var *variable, enum_var_type scope) {
  const Numbers numbers = collect(scope, thd);
  const size_t count = numbers.counts.size() + numbers.texts.size();
  auto *list = static_cast<st_mysql_show_var *>(thd_calloc(thd, (count + 1) * sizeof(st_mysql_show_var)));
  auto *values = static_cast<unsigned long long *>(thd_alloc(thd, (count + 1) * sizeof(unsigned long long)));
  if (list == nullptr || values == nullptr) throw std::bad_alloc();
  size_t at = 0;
  for (const auto &[name, value] : numbers.counts) {
    values[at] = value;
    list[at].name = keep(thd, name);
    list[at].value = reinterpret_cast<char *>(&values[at]);
    list[at++].type = SHOW_ULONGLONG;
  }
  for (const auto &[name, value] : numbers.texts) {
    list[at].name = keep(thd, name);
    list[at].value = keep(thd, value);
    list[at++].type = SHOW_CHAR;
  }
  variable->value = reinterpret_cast<char *>(list);
}

// The server ignores what this function returns. So `variable` always gets a list, which is empty when
// list_all() fails.
int show_all(THD *thd, st_mysql_show_var *variable, void *, system_status_var *, enum_var_type scope) {
  static st_mysql_show_var none[] = {{nullptr, nullptr, SHOW_UNDEF}};
  variable->type = SHOW_ARRAY;
  variable->value = reinterpret_cast<char *>(none);
  guarded([&] { list_all(thd, variable, scope); }, handler::fails);
  return 0;
}

st_mysql_show_var variables[] = {SHOW_FUNC_ENTRY("Atoll", &show_all), {nullptr, nullptr, SHOW_UNDEF}};

// ---- SHOW ENGINE ATOLL STATUS -------------------------------------------------------------------

void write_counts(const std::vector<std::pair<std::string, unsigned long long>> &counts, std::ostream &text) {
  for (const auto &[name, value] : counts) text << "  " << name << ' ' << value << '\n';
}

// Writes who made the report, when, and about which database.
void describe_report(std::ostream &text) {
  text << "ATOLL " << kVersionText << ", report of " << time_text(static_cast<int64_t>(now_us() / 1000000))
       << '\n';
  text << "  " << database_text() << '\n';
}

void describe_bucket(const engine::Engine &running, std::ostream &text) {
  Numbers numbers;
  add_store(running, &numbers);
  add_views(running, &numbers);
  text << "BUCKET\n";
  for (const auto &[name, value] : numbers.texts) text << "  " << name << ' ' << value << '\n';
  write_counts(numbers.counts, text);
}

void describe_transactions(const engine::Engine &running,
                           const std::vector<txn::TransactionInfo> &transactions,
                           const Connections &connections, std::ostream &text) {
  Numbers numbers;
  add_transactions(running, &numbers);
  text << "TRANSACTIONS\n";
  write_counts(numbers.counts, text);
  size_t listed = 0;
  for (const txn::TransactionInfo &info : transactions) {
    if (++listed > kListedMax) break;
    text << "  transaction " << info.id << ": " << info.locks << " locks, " << info.writes << " writes, "
         << (info.prepared ? "prepared, " : "") << describe(connections, info.id) << '\n';
  }
  if (listed > kListedMax) text << "  (more: see INFORMATION_SCHEMA.ATOLL_TRX)\n";
}

// Writes "waits 30 ms for transaction 4: exclusive lock on d.t, index PRIMARY, key (1)".
void describe_wait(const txn::LockInfo &wait, const KeyOwners &owners, std::ostream &text) {
  text << " waits " << wait.waited_ms << " ms for transaction " << wait.blocking_transaction_id << ": "
       << wait.mode_name() << " lock on " << owners.place(wait.family_id, wait.key) << '\n';
}

void describe_waits(const engine::Engine &running, const KeyOwners &owners, const Connections &connections,
                    std::ostream &text) {
  text << "LOCK WAITS\n";
  size_t listed = 0;
  for (const txn::LockInfo &lock : running.transactions()->locks()->list()) {
    if (!lock.waiting) continue;
    if (++listed > kListedMax) break;
    text << "  transaction " << lock.transaction_id << " (" << describe(connections, lock.transaction_id)
         << ')';
    describe_wait(lock, owners, text);
  }
  if (listed > kListedMax) text << "  (more: see INFORMATION_SCHEMA.ATOLL_LOCKS)\n";
}

void describe_deadlock(const engine::Engine &running, const KeyOwners &owners, std::ostream &text) {
  const txn::Deadlock deadlock = running.transactions()->locks()->last_deadlock();
  if (deadlock.members.empty()) return;
  text << "LATEST DEADLOCK\n  found at " << time_text(static_cast<int64_t>(deadlock.found_us / 1000000))
       << '\n';
  for (const txn::Deadlock::Member &member : deadlock.members) {
    text << "  transaction " << member.wait.transaction_id << " (" << member.locks << " locks, "
         << (member.upgrade ? "holds it shared, " : "")
         << (member.user.empty() ? "no connection" : member.user) << ')';
    describe_wait(member.wait, owners, text);
  }
  text << "  rolled back: transaction " << deadlock.victim_id << '\n';
}

void describe_foreign_key_error(std::ostream &text) {
  const handler::ForeignKeyError error = handler::latest_foreign_key_error();
  if (error.found_us == 0) return;
  text << "LATEST FOREIGN KEY ERROR\n  found at " << time_text(static_cast<int64_t>(error.found_us / 1000000))
       << "\n  " << error.text << '\n';
}

void describe_database(const engine::Engine &running, std::ostream &text) {
  text << "DATABASE\n";
  const Status background = running.database()->background_error();
  text << "  background_error " << (background.ok() ? "none" : background.message()) << '\n';
  const auto counters = running.database()->counters();
  write_counts({counters.begin(), counters.end()}, text);
}

}  // namespace

st_mysql_show_var *status_variables() { return variables; }

std::string database_text() {
  const engine::Engine *running = engine::running();
  if (running == nullptr) return {};
  atoll_store_stats stats{};
  if (const engine::Views *views = running->views()) return reader_text(*views);
  atoll_store_get_stats(running->store(), &stats);
  atoll_store_health health{};
  atoll_store_get_health(running->store(), &health);
  std::string text = "tables live in " + url_in_use() + "; durability " + durability_name() + ", epoch " +
                     std::to_string(stats.epoch);
  if (health.last_commit_us != 0)
    text += ", last commit at " + time_text(static_cast<int64_t>(health.last_commit_us / 1000000));
  return text;
}

std::string engine_status_text() {
  std::ostringstream text;
  engine::Engine *running = engine::running();
  // While the tables are closed, too, because lock waits would show values of their keys.
  if (const Status ready = engine::ready(); !ready.ok() || running == nullptr) {
    text << "ATOLL " << kVersionText << ", report of " << time_text(static_cast<int64_t>(now_us() / 1000000))
         << "\nNOT RUNNING\n  " << ready.message() << '\n';
    return text.str();
  }
  const std::vector<txn::TransactionInfo> transactions = running->transactions()->list();
  const Connections connections = connections_of(transactions);
  const KeyOwners owners(*running->catalog());
  describe_report(text);
  describe_bucket(*running, text);
  describe_transactions(*running, transactions, connections, text);
  describe_waits(*running, owners, connections, text);
  describe_deadlock(*running, owners, text);
  describe_foreign_key_error(text);
  describe_database(*running, text);
  return text.str();
}

}  // namespace atoll::plugin
