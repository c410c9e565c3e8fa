// See promotion.h.
#include "handler/server.h"

#include "plugin/reading/promotion.h"

#include <mysqld.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "handler/handlerton.h"
#include "plugin/host/local_sql.h"

namespace atoll::plugin {
namespace {

using Clock = std::chrono::steady_clock;

// Threads that have found the running engine just before it was taken away have finished what they do with it
// within this time: they read numbers of it, for SHOW STATUS for example.
constexpr std::chrono::milliseconds kLastGlances{500};
constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kLookEach{20};
// After a promotion, the block cache of the former reader shrinks to this size.
constexpr uint64_t kRetiredCacheBytes = 1 << 20;

// Ends the connection if it has used ATOLL tables.
my_bool end_connection(THD *thd, const void *except) {
  if (thd == except || thd->slave_thread || thd_get_ha_data(thd, handler::own_handlerton()) == nullptr)
    return 0;
  thd->awake(KILL_CONNECTION);
  return 0;
}

bool has_ended(const engine::Engine &reader, const void *except) {
  const std::vector<txn::TransactionInfo> left = reader.transactions()->list();
  return std::all_of(left.begin(), left.end(),
                     [except](const txn::TransactionInfo &info) { return info.user == except; });
}

}  // namespace

Status leave(engine::Engine *reader, const void *except) {
  const Clock::time_point begin = Clock::now();
  while (!has_ended(*reader, except)) {
    THD_list_iterator::iterator()->iterate(end_connection, except);
    if (Clock::now() - begin > kPatience)
      return Status(Code::kUnavailable, "a transaction on the reader did not end within 30 s");
    std::this_thread::sleep_for(kLookEach);
  }
  LocalSql sql;
  (void)sql.run("SET SESSION lock_wait_timeout = 5, max_statement_time = 0");
  (void)sql.run("FLUSH LOCAL TABLES");
  return Status::Ok();
}

void retire(engine::Engine *reader) {
  std::this_thread::sleep_for(kLastGlances);
  reader->views()->show(nullptr);
  reader->views()->settle();
  reader->database()->set_block_cache_bytes(kRetiredCacheBytes);
}

}  // namespace atoll::plugin
