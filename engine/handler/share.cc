// See share.h.
#include "handler/server.h"

#include "handler/share.h"

#include "engine/running.h"
#include "handler/server/callback.h"

namespace atoll::handler {

// FLUSH TABLES closes the tables of transactions that are under way, too: the numbers they took stay taken.
Share::~Share() {
  unregister_share(this);
  const engine::Engine *running = engine::running();
  const std::shared_ptr<const Layout> layout = this->layout();
  if (running == nullptr || !running->catalog() || layout->family()->side() != lsm::Side::kMain) return;
  guarded([&] { running->catalog()->raise_auto_increment(layout->def().id, next_auto_increment); },
          is_logged);
  guarded_or_nothing([&] { keep_rows(*layout, rows); });  // an estimate
}

uint64_t Share::index_entries(size_t index, const std::function<uint64_t()> &count) {
  constexpr auto kMaxAge = std::chrono::seconds(1);
  const auto now = std::chrono::steady_clock::now();
  {
    MutexLock guard(mutex_);
    const IndexEntries &known = index_entries_[index];
    if (known.entries != 0 && now - known.counted_at < kMaxAge) return known.entries;
  }
  const uint64_t entries = count();
  MutexLock guard(mutex_);
  index_entries_[index] = {entries, now};
  return entries;
}

}  // namespace atoll::handler
