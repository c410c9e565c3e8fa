// ha_atoll: how many entries lie in a range, for the optimizer.
//
// Entries of secondary indexes are counted, up to a hundred: looking up their rows costs ten times as much.
// In the primary index counting would double the cost of a read. There a range that seems to have 16 at most
// is counted; for more, the distance between the first keys, and between some in the middle, tells how dense
// the keys are: three searches and 24 steps at most. Where that says "many", or the two places disagree, the
// sizes of files are asked. They know large ranges well and small ones not at all. All of it uses the cursor
// that the statement reads with afterwards; what it has read is not searched for again.
//
// Once an index is known to find one row, nothing is read for the indexes after it: none of them is better.
#include "handler/ha_atoll.h"

#include <sql_class.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/mutant.h"
#include "engine/running.h"

namespace ah = atoll::handler;
namespace at = atoll::table;
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

// The first entries from a key on.
struct Probe {
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

// Looks at a range with the cursor that the statement reads with. Requires: it has the range's bounds.
class RangeEstimate {
 public:
  RangeEstimate(txn::Cursor *cursor, const at::Bounds &bounds, ah::Share *share)
      : cursor_(*cursor), bounds_(bounds), share_(*share) {}

  Probe probe(std::string_view from, uint64_t entries_max);
  // From the entry under the cursor on, until `found` has `entries_max`; the cursor stays on the last of
  // them.
  void count_entries(uint64_t entries_max, Probe *found);
  // Whether the range, of which the first entries were read, seems to have no more than may be remembered.
  bool seems_small(const Probe &start) const;
  // What the density of the keys at the start of the range and in the middle says. Negative: nothing.
  double interpolate_rows(const Probe &start);

 private:
  bool is_usual_density(double density);

  txn::Cursor &cursor_;
  const at::Bounds &bounds_;
  ah::Share &share_;
};

Probe RangeEstimate::probe(std::string_view from, uint64_t entries_max) {
  Probe found;
  cursor_.Seek(rocksdb::Slice(from.data(), from.size()));
  count_entries(atoll::is_mutant(atoll::Mutant::probe) ? 1000 : entries_max, &found);
  return found;
}

void RangeEstimate::count_entries(uint64_t entries_max, Probe *found) {
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
  atoll::count_work(atoll::WorkKind::kEstimateSteps, found->entries - before);
  found->ended = !cursor_.Valid() && cursor_.status().ok();
}

bool RangeEstimate::seems_small(const Probe &start) const {
  if (is_end_of_prefix(start.first, bounds_.upper)) return false;
  const KeyScale scale(start.first, bounds_.upper);
  const uint64_t distance = scale.number(bounds_.upper) - scale.number(start.first);
  return static_cast<double>(distance) * start.density(scale) <= txn::Cursor::kRememberedEntriesMax;
}

double RangeEstimate::interpolate_rows(const Probe &start) {
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
  share_.key_density = comparable;
  return first_half + static_cast<double>(end - middle) * other;
}

// As dense as the last estimate found its range all along: then one place tells. Now and then two are asked
// again.
bool RangeEstimate::is_usual_density(double density) {
  const double usual = share_.key_density;
  return density < usual * kUsualRatio && usual < density * kUsualRatio &&
         ++share_.trusted_densities % kTrustedDensities != 0;
}

}  // namespace

// EXPLAIN must not begin the transaction's consistent read: its estimates are made from the newest entries.
void ha_atoll::open_cursor_for_estimates(const at::Bounds &bounds) {
  const LEX *lex = ha_thd()->lex;
  const bool reads_afterwards = !is_sequence() && (!lex->describe || lex->analyze_stmt);
  at::EntryCursor &entries = reader_.entries();
  reads_afterwards ? entries.open(bounds) : entries.open_for_estimates(bounds);
}

// As a share of the index: files hold rows and entries of all indexes, so the size of an entry is known on
// average only; in the share it cancels out.
double ha_atoll::rows_by_size(uint index, const at::Bounds &bounds) const {
  atoll::lsm::Figures *figures = atoll::engine::running()->database();
  const uint64_t inside = figures->sizes(layout_->family(), bounds.lower, bounds.upper).entries;
  const uint64_t all = share_->index_entries(index, [&] {
    return figures->sizes(layout_->family(), layout_->index(index).start, layout_->index(index).end).entries;
  });
  return stats_rows() * static_cast<double>(inside) /
         static_cast<double>(std::max(all, std::max<uint64_t>(inside, 1)));
}

// Has the optimizer learnt, for this statement, that an index finds one row at most? It asks the primary key
// first and then unique indexes. UPDATE and DELETE by a whole primary key come here for each other index that
// begins with a column of it; SELECT does not.
bool ha_atoll::is_one_row_known() const {
  if (atoll::is_mutant(atoll::Mutant::one_row_known)) return false;
  for (uint index = 0; index < table_share->keys; index++)
    if (table->opt_range_keys.is_set(index) && table->opt_range[index].rows <= 1) return true;
  return false;
}

// What the sampled statistics say of `bounds`, whose lower end has `parts` columns of the index.
ha_rows ha_atoll::rows_by_statistics(uint index, const at::Bounds &bounds, size_t parts) const {
  constexpr double kShareOfRange = 1.0 / 3;  // of a range that is not one value; it decides nothing
  if (parts > 0 && atoll::codec::key_after_prefix(bounds.lower) == bounds.upper)
    return std::max<ha_rows>(
        table->key_info[index]
            .rec_per_key[std::min<size_t>(parts, table->key_info[index].user_defined_key_parts) - 1],
        1);
  return static_cast<ha_rows>(std::max(stats_rows() * kShareOfRange, 1.0));
}

// Never 0 and never more than the table.
ha_rows ha_atoll::records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                                   page_range *) {
  atoll::count_work(atoll::WorkKind::kRangeEstimates);
  size_t parts = 0;
  at::Bounds bounds;
  range_bounds(index, min_key, max_key, &bounds, &parts);
  if (bounds.lower >= bounds.upper) return 1;
  if (is_one_row_known()) return rows_by_statistics(index, bounds, parts);
  open_cursor_for_estimates(bounds);
  reader_.note_moved();
  at::EntryCursor &entries = reader_.entries();
  RangeEstimate estimate(entries.get(), bounds, share_);
  const bool primary = layout_->is_primary(index);
  Probe start = estimate.probe(bounds.lower, primary ? kProbeEntries : kCountedEntries);
  if (primary && start.entries == kProbeEntries && estimate.seems_small(start)) {
    entries.step(true);
    estimate.count_entries(txn::Cursor::kRememberedEntriesMax, &start);
  }
  const bool has_all = start.ended && start.seen.size() == start.entries;
  if (!entries.is_for_estimates() && (has_all || !start.seen.empty()))
    entries.get()->remember(bounds.lower, {bounds.upper, std::move(start.seen), has_all});
  if (start.ended || start.entries < kProbeEntries)  // the latter is unreadable: the read says why
    return std::max<ha_rows>(start.entries, 1);
  double rows = primary ? estimate.interpolate_rows(start) : -1;
  if (rows < 0) rows = rows_by_size(index, bounds);
  const auto rows_min = static_cast<double>(start.entries);
  return static_cast<ha_rows>(std::clamp(rows, rows_min, std::max(stats_rows(), rows_min)));
}
