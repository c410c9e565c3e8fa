// See table_statistics.h.
#include "handler/server.h"

#include "handler/statistics/table_statistics.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "base/mutex.h"
#include "engine/running.h"
#include "handler/share.h"

namespace atoll::handler {
namespace {

// Pieces of an index that are looked at: values that cluster at one end must not stand for the whole.
constexpr size_t kPieces = 8;
// Entries per index when sampled in the background: some 50 ms of reading. Indexes up to this size, which may
// be in memory only, where they cannot be cut evenly, are read whole.
constexpr uint64_t kBackgroundEntries = 100000;
// Changes that do not matter to any plan.
constexpr int64_t kChangesMin = 16;

struct OpenShares {
  Mutex mutex;
  std::set<Share *> shares ATOLL_GUARDED_BY(mutex);
};

OpenShares &open_shares() {
  static OpenShares instance;
  return instance;
}

// Counts where the value of the first 1, 2, ... parts, those of the primary key behind the index's own
// included, changes from one entry to the next.
class ChangeCounter {
 public:
  explicit ChangeCounter(const IndexLayout &index) : index_(index), changes_(index.codec->part_count(), 0) {}

  void start_piece() { last_.clear(); }
  Status add(std::string_view key) {
    for (size_t part = 0; part < changes_.size(); part++) {
      size_t length = 0;
      ATOLL_RETURN_IF_ERROR(index_.codec->skip_parts(key, part + 1, &length));
      const bool same = last_.size() >= length && memcmp(last_.data(), key.data(), length) == 0;
      if (!last_.empty() && !same) changes_[part]++;
    }
    entries_++;
    last_.assign(key);
    return Status::Ok();
  }
  uint64_t entries() const { return entries_; }
  // `whole`: every entry was added, in one piece. Otherwise a piece may begin and end within a value.
  std::vector<uint64_t> records_per_key(bool whole) const {
    std::vector<uint64_t> result;
    for (const uint64_t changes : changes_) {
      const uint64_t values = std::max<uint64_t>(whole ? changes + 1 : changes, 1);
      result.push_back(std::max<uint64_t>((entries_ + values / 2) / values, 1));
    }
    return result;
  }

 private:
  const IndexLayout &index_;
  std::string last_;
  std::vector<uint64_t> changes_;
  uint64_t entries_ = 0;
};

Status sample_piece(const Layout &layout, std::string_view begin, std::string_view end, uint64_t entries_max,
                    const std::function<bool()> &is_cancelled, ChangeCounter *counter) {
  const rocksdb::Slice lower(begin.data(), begin.size()), upper(end.data(), end.size());
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  options.fill_cache = false;
  lsm::Family *family = layout.family();
  const std::unique_ptr<rocksdb::Iterator> it = family->iterator(options);
  counter->start_piece();
  uint64_t read = 0;
  for (it->Seek(lower); it->Valid() && read < entries_max; it->Next(), read++) {
    if ((read & 0x3FF) == 0 && is_cancelled()) return Status(Code::kInterrupted, "");
    ATOLL_RETURN_IF_ERROR(
        counter->add({it->key().data() + codec::kKeyStartLength, it->key().size() - codec::kKeyStartLength}));
  }
  return lsm::from_rocksdb(it->status());
}

Status sample_index(const Layout &layout, const IndexLayout &index, uint64_t entries_max,
                    const std::function<bool()> &is_cancelled, TableStatistics *out) {
  lsm::Figures *figures = engine::running()->database();
  std::vector<std::string> starts{index.start};
  if (figures->estimate(layout.family(), index.start, index.end).entries > entries_max) {
    for (std::string &cut : figures->split(layout.family(), index.start, index.end, kPieces))
      starts.push_back(std::move(cut));
  }
  ChangeCounter counter(index);
  // One piece that ended by itself was the whole index, whatever was estimated.
  const uint64_t piece_entries = entries_max / starts.size();
  for (size_t i = 0; i < starts.size(); i++) {
    const std::string_view end = i + 1 < starts.size() ? starts[i + 1] : index.end;
    ATOLL_RETURN_IF_ERROR(sample_piece(layout, starts[i], end, piece_entries, is_cancelled, &counter));
  }
  const bool whole = starts.size() == 1 && counter.entries() < piece_entries;
  // The fewest of all indexes: rows that are committed meanwhile are in those that come later only.
  const auto entries = static_cast<int64_t>(counter.entries());
  if (whole) out->rows = out->rows < 0 ? entries : std::min(out->rows, entries);
  out->records_per_key.push_back(counter.records_per_key(whole));
  return Status::Ok();
}

// Rows that came or went since `share` was sampled; 0: not worth sampling.
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
  for (const Share *share : open.shares) {
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

// Also for a table whose definition changed meanwhile: whose layout is another one is sampled again.
void note_sampled(const Layout &layout, int64_t rows, const TableStatistics &statistics) {
  OpenShares &open = open_shares();
  const MutexLock lock(open.mutex);
  for (Share *share : open.shares) {
    if (share->layout().get() != &layout) continue;
    share->set_records_per_key(statistics.records_per_key);
    share->sampled_rows = rows;
  }
}

}  // namespace

std::string encode(const TableStatistics &statistics) {
  std::string out = std::to_string(statistics.rows);
  for (const std::vector<uint64_t> &index : statistics.records_per_key) {
    out += ';';
    for (const uint64_t value : index) out += std::to_string(value) + ',';
  }
  return out;
}

bool decode(std::string_view text, TableStatistics *statistics) {
  const char *at = text.data();
  const char *const end = at + text.size();
  auto number = std::from_chars(at, end, statistics->rows);
  if (number.ec != std::errc()) return false;
  for (at = number.ptr; at < end && *at == ';';) {
    std::vector<uint64_t> &index = statistics->records_per_key.emplace_back();
    for (at++; at < end && *at != ';';) {
      number = std::from_chars(at, end, index.emplace_back());
      if (number.ec != std::errc() || number.ptr == end || *number.ptr != ',') return false;
      at = number.ptr + 1;
    }
  }
  return at == end;
}

Status sample(const Layout &layout, uint64_t entries_max, const std::function<bool()> &is_cancelled,
              TableStatistics *out) {
  for (size_t i = 0; i < layout.index_count(); i++)
    ATOLL_RETURN_IF_ERROR(sample_index(layout, layout.index(i), entries_max, is_cancelled, out));
  return Status::Ok();
}

void register_share(Share *share) {
  const MutexLock lock(open_shares().mutex);
  open_shares().shares.insert(share);
}

void keep_rows(const Layout &layout, int64_t rows) {
  catalog::Catalog *catalog = engine::running()->catalog();
  const uint32_t table = layout.def().id;
  if (rows < 0 || layout.def().logical_only || catalog->find(table) == nullptr) return;
  TableStatistics known;
  if (!decode(catalog->statistics(table), &known)) known = {};
  if (known.rows == rows) return;
  known.rows = rows;
  catalog->set_statistics(table, encode(known));
}

void unregister_share(Share *share) {
  const MutexLock lock(open_shares().mutex);
  open_shares().shares.erase(share);
}

std::shared_ptr<const Layout> layout_of_open_table(uint32_t table_id) {
  const MutexLock lock(open_shares().mutex);
  for (const Share *share : open_shares().shares)
    if (std::shared_ptr<const Layout> layout = share->layout();
        layout->def().id == table_id && layout->family()->side() != lsm::Side::kPast)
      return layout;
  return nullptr;
}

Status refresh_statistics(const std::function<bool()> &is_cancelled) {
  int64_t rows = 0;
  const std::shared_ptr<const Layout> layout = most_changed(&rows);
  if (layout == nullptr) return Status::Ok();
  TableStatistics statistics;
  const Status status = sample(*layout, kBackgroundEntries, is_cancelled, &statistics);
  if (status.code() == Code::kInterrupted) return Status::Ok();  // the server stops
  ATOLL_RETURN_IF_ERROR(status);
  // The running count has rows that are not committed, which no sample sees: then the table is still to be
  // sampled.
  note_sampled(*layout, statistics.rows >= 0 ? statistics.rows : rows, statistics);
  statistics.rows = rows;
  engine::running()->catalog()->set_statistics(layout->def().id, encode(statistics));
  return Status::Ok();
}

}  // namespace atoll::handler
