#include "lsm/upkeep/idle_flush.h"

namespace atoll::lsm {
namespace {

using Clock = std::chrono::steady_clock;

// The pause between two flushes, so that they do not get in the way of commits.
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

IdleFlush::IdleFlush(rocksdb::DB *db, std::function<std::vector<FamilyImpl *>()> live_families,
                     Settings settings)
    : db_(db),
      live_families_(std::move(live_families)),
      settings_(settings),
      task_("atoll-idle", settings.look_every, [this] { look(); }) {}

bool IdleFlush::is_idle(FamilyImpl *family) {
  const uint64_t rows =
      int_property(db_, family->handle(), rocksdb::DB::Properties::kNumEntriesActiveMemTable);
  if (rows == 0) {
    seen_.erase(family->id());
    return false;
  }
  Seen &seen = seen_[family->id()];
  if (seen.rows != rows) {
    seen = {rows, Clock::now()};
    return false;
  }
  return Clock::now() - seen.since >= settings_.idle_after;
}

void IdleFlush::look() {
  rocksdb::FlushOptions options;
  options.allow_write_stall = false;
  for (FamilyImpl *family : live_families_()) {
    if (!is_idle(family)) continue;
    (void)db_->Flush(options, family->handle());  // ErrorWatch reports a failure
    seen_.erase(family->id());
    if (!task_.rest(kPause)) return;
  }
}

}  // namespace atoll::lsm
