#include "lsm/upkeep/idle_flush.h"

#include "base/border/border.h"

namespace atoll::lsm {
namespace {

using Clock = std::chrono::steady_clock;

// Between two flushes, so that they do not get in the way of commits.
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

IdleFlush::IdleFlush(rocksdb::DB *db, std::function<std::vector<FamilyImpl *>()> live_families,
                     Settings settings)
    : db_(db), live_families_(std::move(live_families)), settings_(settings), thread_([this] { run(); }) {}

IdleFlush::~IdleFlush() { stop(); }

void IdleFlush::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// False: stop.
bool IdleFlush::wait(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  wake_.wait_for(lock, time, [this]() ATOLL_REQUIRES(mutex_) { return stopping_; });
  return !stopping_;
}

bool IdleFlush::is_idle(FamilyImpl *family) {
  uint64_t rows = 0;
  (void)db_->GetIntProperty(family->handle(), rocksdb::DB::Properties::kNumEntriesActiveMemTable, &rows);
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

void IdleFlush::run() {
  // What finds no memory is done at the next look.
  while (wait(settings_.look_every)) guarded_or_nothing([this] { look(); });
}

void IdleFlush::look() {
  rocksdb::FlushOptions options;
  options.allow_write_stall = false;
  for (FamilyImpl *family : live_families_()) {
    if (!is_idle(family)) continue;
    (void)db_->Flush(options, family->handle());  // a failure is a background error, shown elsewhere
    seen_.erase(family->id());
    if (!wait(kPause)) return;
  }
}

}  // namespace atoll::lsm
