// ha_atoll: how many entries lie in a range, for the optimizer.
//
// Entries of secondary indexes are counted, up to a hundred: looking up their rows costs ten times as much.
// In the primary index counting would double the cost of a read. There a range that seems to have 16 at most
// is counted; for more, the distance between the first keys, and between some in the middle, tells how dense
// the keys are: three searches and 24 steps at most. Where that says "many", or the two places disagree, the
// sizes of files are asked. They know large ranges well and small ones not at all. All of it uses the cursor
// that the statement reads with afterwards; what it has read is not searched for again.
#include "handler/ha_atoll.h"

#include <sql_class.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/mutant.h"
#include "plugin/instance.h"

namespace ah = atoll::handler;
namespace txn = atoll::txn;

namespace {

constexpr uint64_t kProbeEntries = 8;
constexpr uint64_t kCountedEntries = 100;
// From here on files tell better.
constexpr double kInterpolatedMax = 1024;
// So much the densities at two places may differ.
constexpr double kDensityRatioMax = 8;
constexpr double kUsualRatio = 1.5;
constexpr uint32_t kTrustedDensities = 32;

// Keys of a range as numbers: the eight bytes behind what its ends have in common.
class KeyScale {
 public:
  KeyScale(std::string_view low, std::string_view high) : low_(low) {
    while (shared_ < low.size() && shared_ < high.size() && low[shared_] == high[shared_]) shared_++;
  }

  uint64_t number(std::string_view key) const { return atoll::load_be_start(key.substr(shared_)); }
  size_t shared() const { return shared_; }  // bytes
  std::string key(uint64_t number) const {
    std::string key(low_.substr(0, shared_));
    for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
    return key;
  }

 private:
  std::string_view low_;
  size_t shared_ = 0;
};

// Whether all keys from `first` to before `end` begin with the same bytes, those `end` is the successor of.
bool is_end_of_prefix(std::string_view first, std::string_view end) {
  if (end.empty() || first.size() < end.size()) return false;
  const size_t last = end.size() - 1;
  return first.substr(0, last) == end.substr(0, last) &&
         static_cast<uint8_t>(first[last]) + 1 == static_cast<uint8_t>(end[last]);
}

}  // namespace

// The first entries from a key on.
struct ha_atoll::Probe {
  uint64_t entries = 0;
  bool ended = false;  // the range has no more of them
  std::string first, last;
  txn::EntryList seen;    // as many of them as may be remembered
  size_t seen_bytes = 0;  // of all entries

  // Entries for each step of the scale; 0: they are too close to tell.
  double density(const KeyScale &scale) const {
    const uint64_t distance = scale.number(last) - scale.number(first);
    return distance == 0 ? 0 : static_cast<double>(entries - 1) / static_cast<double>(distance);
  }
};

ha_atoll::Probe ha_atoll::probe(std::string_view from, uint64_t entries_max) {
  Probe found;
  cursor_->Seek(rocksdb::Slice(from.data(), from.size()));
  count_entries(atoll::is_mutant(atoll::Mutant::probe) ? 1000 : entries_max, &found);
  return found;
}

// From the entry under the cursor on, until `found` has `entries_max`; the cursor stays on the last of them.
void ha_atoll::count_entries(uint64_t entries_max, Probe *found) {
  const uint64_t before = found->entries;
  for (; cursor_->Valid(); cursor_->Next()) {
    const std::string_view key = cursor_->key().ToStringView(), value = cursor_->value().ToStringView();
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
  atoll::count_work(atoll::WorkKind::kEstimateSteps, found->entries - before);
  found->ended = !cursor_->Valid() && cursor_->status().ok();
}

// Whether a range of which the first entries were read seems to have no more than may be remembered.
bool ha_atoll::seems_small(const Probe &start) const {
  if (is_end_of_prefix(start.first, bounds_.upper)) return false;
  const KeyScale scale(start.first, bounds_.upper);
  const uint64_t distance = scale.number(bounds_.upper) - scale.number(start.first);
  return static_cast<double>(distance) * start.density(scale) <= txn::Cursor::kRememberedEntriesMax;
}

// EXPLAIN must not begin the transaction's consistent read, and what a statement reads with locks it reads
// with cursors of its own: those estimates are made from the newest entries.
void ha_atoll::open_cursor_for_estimates() {
  const LEX *lex = ha_thd()->lex;
  const bool reads_afterwards = !locking() && !is_sequence() && (!lex->describe || lex->analyze_stmt);
  if (reads_afterwards) return open_cursor(false);
  if (!cursor_ || cursor_writes_ != kForEstimates) {
    cursor_ = new_cursor(txn::ReadAt::kLatest, false);
    cursor_writes_ = kForEstimates;
  }
  cursor_->set_bounds(bounds_.lower, bounds_.upper);
}

// What the density of the keys at the start of bounds_ and in the middle says. Negative: nothing.
double ha_atoll::interpolate_rows(const Probe &start) {
  std::string last = bounds_.upper;
  if (is_end_of_prefix(start.first, last)) {
    cursor_->SeekToLast();
    if (!cursor_->Valid()) return -1;
    last = cursor_->key().ToString();
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
  share_->key_density = comparable;
  return first_half + static_cast<double>(end - middle) * other;
}

// As dense as the last estimate found its range all along: then one place tells. Now and then two are asked
// again.
bool ha_atoll::is_usual_density(double density) {
  const double usual = share_->key_density;
  return density < usual * kUsualRatio && usual < density * kUsualRatio &&
         ++share_->trusted_densities % kTrustedDensities != 0;
}

// As a share of the index: files hold rows and entries of all indexes, so the size of an entry is known on
// average only; in the share it cancels out.
double ha_atoll::rows_by_size(uint index) const {
  atoll::lsm::Database *database = atoll::plugin::instance()->database.get();
  const uint64_t inside = database->sizes(layout_->family(), bounds_.lower, bounds_.upper).entries;
  const uint64_t all = share_->index_entries(index, [&] {
    return database->sizes(layout_->family(), layout_->index(index).start, layout_->index(index).end).entries;
  });
  return stats_rows() * static_cast<double>(inside) /
         static_cast<double>(std::max(all, std::max<uint64_t>(inside, 1)));
}

// Never 0 and never more than the table.
ha_rows ha_atoll::records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                                   page_range *) {
  atoll::count_work(atoll::WorkKind::kRangeEstimates);
  size_t parts = 0;
  range_bounds(index, min_key, max_key, &bounds_.lower, &bounds_.upper, &parts);
  if (bounds_.lower >= bounds_.upper) return 1;
  open_cursor_for_estimates();
  cursor_positioned_ = false;
  const bool primary = layout_->is_primary(index);
  Probe start = probe(bounds_.lower, primary ? kProbeEntries : kCountedEntries);
  if (primary && start.entries == kProbeEntries && seems_small(start)) {
    cursor_->Next();
    count_entries(txn::Cursor::kRememberedEntriesMax, &start);
  }
  const bool is_reusable = cursor_writes_ != kForEstimates && start.seen.size() == start.entries;
  if (start.ended) {
    if (is_reusable) cursor_->remember(bounds_.lower, {bounds_.upper, std::move(start.seen)});
    return std::max<ha_rows>(start.entries, 1);
  }
  if (start.entries < kProbeEntries)
    return std::max<ha_rows>(start.entries, 1);  // unreadable: the read says why
  // Before other searches, which forget it again.
  if (is_reusable) cursor_->remember_start(bounds_.lower, {bounds_.upper, std::move(start.seen)});
  double rows = primary ? interpolate_rows(start) : -1;
  if (rows < 0) rows = rows_by_size(index);
  const auto rows_min = static_cast<double>(start.entries);
  return static_cast<ha_rows>(std::clamp(rows, rows_min, std::max(stats_rows(), rows_min)));
}
