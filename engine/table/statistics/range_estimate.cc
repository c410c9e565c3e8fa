// See range_estimate.h.
#include "table/statistics/range_estimate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "base/mutant.h"
#include "base/work.h"
#include "txn/reads/cursor.h"

namespace atoll::table {
namespace {

constexpr uint64_t kProbeEntries = 8;
constexpr uint64_t kCountedEntries = 100;
// For ranges of more rows than this, the sizes of files give a better estimate than the density of keys.
constexpr double kInterpolatedMax = 1024;
// If the densities of keys at the start and in the middle differ by more than this factor, neither is used.
constexpr double kDensityRatioMax = 8;
constexpr double kUsualRatio = 1.5;
constexpr uint32_t kTrustedDensities = 32;

// Maps the keys of a range to numbers: a key's number is the eight bytes after the bytes that both ends of
// the range have in common.
class KeyScale {
 public:
  KeyScale(std::string_view low, std::string_view high) : low_(low) {
    while (shared_ < low.size() && shared_ < high.size() && low[shared_] == high[shared_]) shared_++;
  }

  uint64_t number(std::string_view key) const { return load_be_start(key.substr(shared_)); }
  size_t shared() const { return shared_; }  // the number of these bytes
  std::string key(uint64_t number) const {
    std::string key(low_.substr(0, shared_));
    for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
    return key;
  }

 private:
  std::string_view low_;
  size_t shared_ = 0;
};

// Whether all keys in [`first`, `end`) begin with the same bytes, and `end` is the successor of these bytes.
bool is_end_of_prefix(std::string_view first, std::string_view end) {
  if (end.empty() || first.size() < end.size()) return false;
  const size_t last = end.size() - 1;
  return first.substr(0, last) == end.substr(0, last) &&
         static_cast<uint8_t>(first[last]) + 1 == static_cast<uint8_t>(end[last]);
}

// A probe is one search and some steps in the range. It reads the first entries from some key on, and this
// object holds them.
struct Probe {
  uint64_t entries = 0;
  bool ended = false;  // the range has no more entries after these
  std::string first, last;
  txn::EntryList seen;    // the entries, as many as txn::Cursor::remember() takes
  size_t seen_bytes = 0;  // the bytes of all entries

  // The number of entries per difference of 1 between the numbers of their keys; 0: the first and the last
  // entry have the same number, so nothing is known.
  double density(const KeyScale &scale) const {
    const uint64_t distance = scale.number(last) - scale.number(first);
    return distance == 0 ? 0 : static_cast<double>(entries - 1) / static_cast<double>(distance);
  }
};

// Reads parts of a range for an estimate, with the same cursor that the statement uses for its read.
// Requires: the cursor has the range's bounds.
class RangeWalk {
 public:
  RangeWalk(txn::Cursor *cursor, const Bounds &bounds, EstimateCache *cache)
      : cursor_(*cursor), bounds_(bounds), cache_(*cache) {}

  Probe probe(std::string_view from, uint64_t entries_max);
  // Counts entries from the cursor's position on, until `found` has `entries_max` entries. The cursor stays
  // on the last counted entry.
  void count_entries(uint64_t entries_max, Probe *found);
  // Estimates, from the range's first entries in `start`, whether the whole range has at most as many entries
  // as txn::Cursor::remember() takes (kRememberedEntriesMax).
  bool seems_small(const Probe &start) const;
  // Estimates the rows of the range from the density of its keys at the start and in the middle. Negative:
  // the densities allow no estimate.
  double interpolate_rows(const Probe &start);

 private:
  bool is_usual_density(double density);

  txn::Cursor &cursor_;
  const Bounds &bounds_;
  EstimateCache &cache_;
};

Probe RangeWalk::probe(std::string_view from, uint64_t entries_max) {
  Probe found;
  cursor_.Seek(rocksdb::Slice(from.data(), from.size()));
  count_entries(is_mutant(Mutant::probe) ? 1000 : entries_max, &found);
  return found;
}

void RangeWalk::count_entries(uint64_t entries_max, Probe *found) {
  const uint64_t before = found->entries;
  for (; cursor_.Valid(); cursor_.Next()) {
    const std::string_view key = cursor_.key().ToStringView(), value = cursor_.value().ToStringView();
    if (found->entries == 0) {
      found->first = key;
      found->seen.reserve(kProbeEntries, std::min(kProbeEntries * (key.size() + value.size()),
                                                  txn::Cursor::kRememberedBytesMax));
    }
    found->seen_bytes += key.size() + value.size();
    if (found->entries < txn::Cursor::kRememberedEntriesMax &&
        found->seen_bytes <= txn::Cursor::kRememberedBytesMax)
      found->seen.append(key, value);
    if (++found->entries < entries_max) continue;
    found->last = key;
    break;
  }
  count_work(WorkKind::kEstimateSteps, found->entries - before);
  found->ended = !cursor_.Valid() && cursor_.status().ok();
}

bool RangeWalk::seems_small(const Probe &start) const {
  if (is_end_of_prefix(start.first, bounds_.upper)) return false;
  const KeyScale scale(start.first, bounds_.upper);
  const uint64_t distance = scale.number(bounds_.upper) - scale.number(start.first);
  return static_cast<double>(distance) * start.density(scale) <= txn::Cursor::kRememberedEntriesMax;
}

double RangeWalk::interpolate_rows(const Probe &start) {
  std::string last = bounds_.upper;
  if (is_end_of_prefix(start.first, last)) {
    cursor_.SeekToLast();
    if (!cursor_.Valid()) return -1;
    last = cursor_.key().ToString();
  }
  const KeyScale scale(start.first, last);
  const uint64_t first = scale.number(start.first), end = scale.number(last);
  const double density = start.density(scale);
  if (density == 0 || end <= first) return -1;
  const double rows = static_cast<double>(end - first) * density;
  if (rows > kInterpolatedMax) return -1;
  const double comparable = std::ldexp(density, static_cast<int>(8 * scale.shared()));
  if (is_usual_density(comparable)) return rows;
  const uint64_t middle = first + (end - first) / 2;
  const Probe second = probe(scale.key(middle), kProbeEntries);
  const double first_half = static_cast<double>(middle - first) * density;
  if (second.ended) return first_half + static_cast<double>(second.entries);
  const double other = second.entries < kProbeEntries ? 0 : second.density(scale);
  if (other == 0 || other > density * kDensityRatioMax || density > other * kDensityRatioMax) return -1;
  cache_.key_density = comparable;
  return first_half + static_cast<double>(end - middle) * other;
}

// Whether the keys are about as dense as in the last estimate that probed both the start and the middle of a
// range. Then the probe at the start is enough. Each kTrustedDensities-th time it returns false all the same,
// so that the middle is probed again.
bool RangeWalk::is_usual_density(double density) {
  const double usual = cache_.key_density;
  return density < usual * kUsualRatio && usual < density * kUsualRatio &&
         ++cache_.trusted_densities % kTrustedDensities != 0;
}

// Estimates the rows of a range from sizes of files, as the range's share of the whole index. Files hold rows
// and entries of all indexes, so the size of one entry of this index is not known. The share does not need
// it.
double rows_by_size(const Layout &layout, lsm::Figures *figures, EstimateCache *cache,
                    const EstimateRequest &request) {
  const IndexLayout &index = layout.index(request.index);
  const uint64_t inside = figures->sizes(layout.family(), request.bounds.lower, request.bounds.upper).entries;
  const uint64_t all = cache->index_entries(
      request.index, [&] { return figures->sizes(layout.family(), index.start, index.end).entries; });
  return request.table_rows * static_cast<double>(inside) /
         static_cast<double>(std::max(all, std::max<uint64_t>(inside, 1)));
}

}  // namespace

uint64_t EstimateCache::index_entries(size_t index, const std::function<uint64_t()> &count) {
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

uint64_t estimate_rows(RowCursor *reader, lsm::Figures *figures, EstimateCache *cache,
                       const EstimateRequest &request) {
  const Layout &layout = reader->table().layout();
  const Bounds &bounds = request.bounds;
  EntryCursor &entries = reader->entries();
  request.is_read_afterwards ? entries.open(bounds) : entries.open_for_estimates(bounds);
  reader->note_moved();
  RangeWalk walk(entries.get(), bounds, cache);
  const bool primary = layout.is_primary(request.index);
  Probe start = walk.probe(bounds.lower, primary ? kProbeEntries : kCountedEntries);
  if (primary && start.entries == kProbeEntries && walk.seems_small(start)) {
    entries.step(true);
    walk.count_entries(txn::Cursor::kRememberedEntriesMax, &start);
  }
  const bool has_all = start.ended && start.seen.size() == start.entries;
  if (!entries.is_for_estimates() && (has_all || !start.seen.empty()))
    entries.get()->remember(bounds.lower, {bounds.upper, std::move(start.seen), has_all});
  if (start.ended || start.entries < kProbeEntries)  // the second: the statement's read reports the error
    return std::max<uint64_t>(start.entries, 1);
  double rows = primary ? walk.interpolate_rows(start) : -1;
  if (rows < 0) rows = rows_by_size(layout, figures, cache, request);
  const auto rows_min = static_cast<double>(start.entries);
  return static_cast<uint64_t>(std::clamp(rows, rows_min, std::max(request.table_rows, rows_min)));
}

}  // namespace atoll::table
