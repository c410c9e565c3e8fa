// See open_shares.h.
#include "handler/server.h"

#include "handler/statistics/open_shares.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/running.h"
#include "handler/share.h"
#include "table/statistics/sampling.h"
#include "table/statistics/update_times.h"

namespace atoll::handler {
namespace {

// How many entries of each index a background sample reads, which takes some 50 ms. An index of at most this
// size is read as a whole: it may be only in memory, and an index in memory cannot be cut into even parts.
constexpr uint64_t kBackgroundEntries = 100000;
// So few changed rows change no plan, whatever the size of the table.
constexpr int64_t kChangesMin = 16;

// How long the background thread waits before it samples a table again. Rows that are not committed count as
// changes, but a sample does not see them. So each time a sample finds the same as the one before, the thread
// waits twice as long. Otherwise, during a long transaction, it would sample the same table every second and
// no other table.
class Pause {
 public:
  bool is_over() const { return Clock::now() >= end_; }
  void note(bool found_the_same) {
    length_ = found_the_same ? std::clamp(2 * length_, kMin, kMax) : Clock::duration::zero();
    end_ = Clock::now() + length_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kMin = std::chrono::seconds(1), kMax = std::chrono::minutes(1);

  Clock::duration length_ = Clock::duration::zero();
  Clock::time_point end_ = Clock::time_point::min();
};

struct OpenShares {
  Mutex mutex;
  std::map<Share *, Pause> shares ATOLL_GUARDED_BY(mutex);
};

OpenShares &open_shares() {
  static OpenShares instance;
  return instance;
}

table::UpdateTimes &update_times() {
  static table::UpdateTimes instance;
  return instance;
}

// How many rows were added or removed since `share` was sampled; 0: too few to sample it again.
int64_t changes_of(const Share &share) {
  const int64_t rows = share.rows;
  if (rows < 0) return 0;
  const bool unknown = share.sampled_indexes() != share.layout()->index_count();
  const int64_t sampled = unknown ? 0 : std::max<int64_t>(share.sampled_rows, 0);
  const int64_t changes = std::abs(rows - sampled);
  return changes > kChangesMin + sampled / 10 ? changes : 0;
}

std::shared_ptr<const Layout> most_changed(int64_t *rows) {
  OpenShares &open = open_shares();
  const MutexLock lock(open.mutex);
  const Share *most = nullptr;
  int64_t changes_max = 0;
  for (const auto &[share, pause] : open.shares) {
    if (!pause.is_over()) continue;
    const std::shared_ptr<const Layout> layout = share->layout();
    if (layout->def().logical_only || layout->family()->side() != lsm::Side::kMain) continue;
    const int64_t changes = changes_of(*share);
    if (changes <= changes_max) continue;
    changes_max = changes;
    most = share;
  }
  if (most == nullptr) return nullptr;
  *rows = most->rows;
  return most->layout();
}

// Stores the sample in the share that has this layout. If the table's definition has changed meanwhile, its
// share has another layout, and the table is sampled again.
void note_sampled(const Layout &layout, const table::TableStatistics &statistics) {
  OpenShares &open = open_shares();
  const MutexLock lock(open.mutex);
  for (auto &[share, pause] : open.shares) {
    if (share->layout().get() != &layout) continue;
    pause.note(share->sampled_rows == statistics.sampled_rows &&
               share->records_per_key() == statistics.records_per_key);
    share->set_sample(statistics);
  }
}

Status sample_in_background(const Layout &layout, int64_t rows, const std::function<bool()> &is_cancelled) {
  table::TableStatistics statistics;
  ATOLL_RETURN_IF_ERROR(
      table::sample(layout, engine::running()->database(), kBackgroundEntries, is_cancelled, &statistics));
  // `rows` counts rows that are not committed, but a sample does not see them. The two numbers then differ,
  // so that the table is sampled again later, even after it was closed and opened again.
  statistics.sampled_rows = statistics.rows >= 0 ? statistics.rows : rows;
  statistics.rows = rows;
  note_sampled(layout, statistics);
  engine::running()->catalog()->set_statistics(layout.def().id, table::encode(statistics));
  return Status::Ok();
}

}  // namespace

void register_share(Share *share) {
  const MutexLock lock(open_shares().mutex);
  open_shares().shares.try_emplace(share);
}

void keep_rows(const Layout &layout, int64_t rows) {
  catalog::Catalog *catalog = engine::running()->catalog();
  const uint32_t table = layout.def().id;
  if (rows < 0 || layout.def().logical_only || catalog->find(table) == nullptr) return;
  table::TableStatistics known;
  if (!table::decode(catalog->statistics(table), &known)) known = {};
  if (known.rows == rows) return;
  known.rows = rows;
  catalog->set_statistics(table, table::encode(known));
}

void unregister_share(Share *share) {
  const MutexLock lock(open_shares().mutex);
  open_shares().shares.erase(share);
}

void take_back_rows(const table::RowChanges::Counts &undone) {
  if (undone.empty()) return;
  const std::map<uint32_t, int64_t> rows_of(undone.begin(), undone.end());
  const MutexLock lock(open_shares().mutex);
  for (const auto &[share, pause] : open_shares().shares) {
    const std::shared_ptr<const Layout> layout = share->layout();
    const auto rows = rows_of.find(layout->def().id);
    if (rows != rows_of.end() && layout->family()->side() == lsm::Side::kMain) share->rows -= rows->second;
  }
}

void note_update_times(const table::RowChanges::Counts &changes) {
  if (changes.empty()) return;
  const catalog::Catalog *const all = engine::running()->catalog();
  update_times().note(changes, static_cast<int64_t>(now_us() / 1000000),
                      [all](uint32_t table) { return all->find(table) != nullptr; });
}

int64_t update_time_s(uint32_t table_id) { return update_times().of(table_id); }

std::shared_ptr<const Layout> layout_of_open_table(uint32_t table_id) {
  const MutexLock lock(open_shares().mutex);
  for (const auto &[share, pause] : open_shares().shares)
    if (std::shared_ptr<const Layout> layout = share->layout();
        layout->def().id == table_id && layout->family()->side() != lsm::Side::kPast)
      return layout;
  return nullptr;
}

bool is_largest_partition(const Share &share) {
  const std::shared_ptr<const Layout> layout = share.layout();
  if (!catalog::is_partition(layout->def().name)) return true;
  const std::string_view table = catalog::whole_table(layout->def().name);
  const MutexLock lock(open_shares().mutex);
  for (const auto &[other, pause] : open_shares().shares) {
    if (other->rows <= share.rows) continue;
    const std::shared_ptr<const Layout> others = other->layout();
    if (others->def().database == layout->def().database && catalog::whole_table(others->def().name) == table)
      return false;
  }
  return true;
}

Status refresh_statistics(const std::function<bool()> &is_cancelled) {
  const auto end = std::chrono::steady_clock::now() + kSamplingTime;
  do {
    int64_t rows = 0;
    const std::shared_ptr<const Layout> layout = most_changed(&rows);
    if (layout == nullptr) break;
    const Status status = sample_in_background(*layout, rows, is_cancelled);
    if (status.code() == Code::kInterrupted) break;  // the server shuts down
    ATOLL_RETURN_IF_ERROR(status);
  } while (std::chrono::steady_clock::now() < end);
  return Status::Ok();
}

}  // namespace atoll::handler
