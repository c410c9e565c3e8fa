// Estimates how much data lies between two keys, and finds the keys at which a range is cut for parallel
// scans. Both happen while a query is planned, so they read little: the borders of files, which are in
// memory, and index blocks, mostly of the one or two tables into which a bound of the range falls. The query
// itself needs these blocks next.
#include <rocksdb/db.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "lsm/database_impl.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

using rocksdb::Range;
using rocksdb::Slice;

// Ranges of at most this size are counted if their blocks are in memory, because an estimate by blocks cannot
// tell one row from three hundred.
constexpr uint64_t kCountBytesMax = 32 * 1024;
constexpr uint64_t kCountEntriesMax = 512;
// The length of the table id and the index ordinal, the part of a key that tells one index from another.
constexpr size_t kIndexPrefixBytes = 6;
constexpr auto kEntrySizeMaxAge = std::chrono::seconds(60);  // then entry_bytes() measures again
constexpr double kEntryBytesGuess = 40;                      // for a range without table files
// Entries of an index of few values are compressed to less than a byte, but not to nothing.
constexpr double kEntryBytesMin = 0.01;
// split() cuts a range with at least kFilesPerPiece files for each piece at the borders of files. In another
// range, it tries about kKeysPerPiece keys for each piece, but at most kKeysPerFileMax in one file. Then, up
// to kRefinements times, it tries kKeysPerGap more keys inside each gap that is too large.
constexpr size_t kFilesPerPiece = 4;
constexpr size_t kKeysPerPiece = 6;
constexpr size_t kKeysPerFileMax = 256;
constexpr size_t kKeysPerGap = 16;
constexpr int kRefinements = 4;
constexpr uint64_t kGapBytesMin = 16 * 1024;  // one block: RocksDB's estimates of sizes are no finer

Slice slice(std::string_view text) { return Slice(text.data(), text.size()); }
std::string_view view(const Slice &text) { return {text.data(), text.size()}; }

// ---- helpers of split(): finding keys that cut a range into equal pieces ---------------------------

// Appends to `keys` up to `count` keys strictly between `low` and `high`. The 8 bytes after the prefix that
// `low` and `high` share are taken as numbers, and the keys are evenly spaced between these numbers.
void interpolate(std::string_view low, std::string_view high, size_t count, std::vector<std::string> *keys) {
  const size_t shared = static_cast<size_t>(
      std::mismatch(low.begin(), low.end(), high.begin(), high.end()).first - low.begin());
  const uint64_t from = load_be_start(low.substr(shared));
  const uint64_t until = load_be_start(high.substr(shared));
  if (until <= from) return;
  const uint64_t step = (until - from) / (count + 1);
  if (step == 0) return;
  for (size_t i = 1; i <= count; ++i) {
    const uint64_t number = __builtin_bswap64(from + step * i);
    std::string key(low.substr(0, shared));
    key.append(reinterpret_cast<const char *>(&number), sizeof(number));
    if (key > low && key < high) keys->push_back(std::move(key));
  }
}

uint64_t sum_of(const std::vector<uint64_t> &gaps) {
  return std::accumulate(gaps.begin(), gaps.end(), uint64_t{0});
}

void sort_unique(std::vector<std::string> *keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

// Returns the estimated bytes of each gap: from `begin` to the first key, between neighbouring keys, and from
// the last key to `end`.
std::vector<uint64_t> gap_bytes(rocksdb::DB *db, Family *family, std::string_view begin, std::string_view end,
                                const std::vector<std::string> &keys) {
  std::vector<Range> ranges;
  std::string_view from = begin;
  for (const std::string &key : keys) {
    ranges.emplace_back(slice(from), slice(key));
    from = key;
  }
  ranges.emplace_back(slice(from), slice(end));
  rocksdb::SizeApproximationOptions options;
  options.include_files = true;
  options.include_memtables = true;
  std::vector<uint64_t> sizes(ranges.size());
  (void)db->GetApproximateSizes(options, family->handle(), ranges.data(), static_cast<int>(ranges.size()),
                                sizes.data());
  return sizes;
}

// The part of one table file that lies inside a range: its first and last key. `bytes` is the size of the
// whole file.
struct FilePart {
  std::string low, high;
  uint64_t bytes = 0;
};

// Returns the parts of the family's table files that lie inside [begin, end), sorted by their last keys.
std::vector<FilePart> parts_in(rocksdb::DB *db, Family *family, std::string_view begin,
                               std::string_view end) {
  rocksdb::ColumnFamilyMetaData files;
  db->GetColumnFamilyMetaData(family->handle(), &files);
  std::vector<FilePart> parts;
  for (const auto &level : files.levels) {
    for (const auto &file : level.files) {
      const std::string_view low = std::max<std::string_view>(file.smallestkey, begin);
      const std::string_view high = std::min<std::string_view>(file.largestkey, end);
      if (low < high) parts.push_back({std::string(low), std::string(high), file.size});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const FilePart &a, const FilePart &b) { return a.high < b.high; });
  return parts;
}

// Returns keys at which the range can be cut: the first and last keys of the files inside (begin, end), and
// up to `per_file` keys inside each file.
std::vector<std::string> candidates(const std::vector<FilePart> &files, std::string_view begin,
                                    std::string_view end, size_t per_file) {
  std::vector<std::string> keys;
  for (const FilePart &file : files) {
    if (file.low > begin) keys.push_back(file.low);
    if (file.high < end) keys.push_back(file.high);
    interpolate(file.low, file.high, per_file, &keys);
  }
  if (keys.empty()) interpolate(begin, end, per_file, &keys);
  sort_unique(&keys);
  return keys;
}

// Picks the keys that cut the range into about `pieces` parts of the same size. gaps[i] is the number of
// bytes between keys[i] and the key before it.
std::vector<std::string> cut_evenly(const std::vector<std::string> &keys, const std::vector<uint64_t> &gaps,
                                    size_t pieces) {
  std::vector<std::string> cuts;
  const uint64_t total = sum_of(gaps);
  uint64_t sum = 0;
  for (size_t i = 0; i < keys.size() && cuts.size() + 1 < pieces; ++i) {
    sum += gaps[i];
    if (sum > 0 && sum * pieces >= total * (cuts.size() + 1)) cuts.push_back(keys[i]);
  }
  return cuts;
}

// Cuts the range at the last keys of files. With many files these lie close enough together, and no table has
// to be opened.
std::vector<std::string> cut_between_files(const std::vector<FilePart> &files, std::string_view end,
                                           size_t pieces) {
  std::vector<std::string> keys;
  std::vector<uint64_t> gaps;
  uint64_t bytes = 0;
  for (const FilePart &file : files) {
    bytes += file.bytes;
    if (file.high >= end || (!keys.empty() && keys.back() == file.high)) continue;
    keys.push_back(file.high);
    gaps.push_back(bytes);
    bytes = 0;
  }
  gaps.push_back(bytes);
  return cut_evenly(keys, gaps, pieces);
}

// Moves *low up and *high down to keys that exist, so that interpolate() also works when keys lie in clusters
// far from each other. Reads two blocks for that. Returns false if fewer than two keys lie between them.
bool tighten(rocksdb::Iterator *rows, std::string *low, std::string *high) {
  rows->Seek(*low);
  if (!rows->Valid() || rows->key().compare(*high) >= 0) return false;
  std::string first = rows->key().ToString();
  rows->SeekForPrev(*high);
  if (!rows->Valid() || rows->key().compare(first) <= 0) return false;
  *low = std::move(first);
  *high = rows->key().ToString();
  return true;
}

// Adds to `keys` some keys inside each gap of more than `gap_bytes_max` bytes. Returns false if it found
// none.
bool refine(rocksdb::Iterator *rows, std::string_view begin, std::string_view end,
            const std::vector<uint64_t> &gaps, uint64_t gap_bytes_max, std::vector<std::string> *keys) {
  std::vector<std::string> more;
  for (size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i] <= gap_bytes_max) continue;
    std::string low(i == 0 ? begin : std::string_view((*keys)[i - 1]));
    std::string high(i == keys->size() ? end : std::string_view((*keys)[i]));
    if (!tighten(rows, &low, &high)) continue;
    if (low > begin) more.push_back(low);
    more.push_back(high);
    interpolate(low, high, kKeysPerGap, &more);
  }
  const size_t before = keys->size();
  keys->insert(keys->end(), more.begin(), more.end());
  sort_unique(keys);
  return keys->size() > before;
}

}  // namespace

// ---- estimating sizes ----------------------------------------------------------------------------

uint64_t DatabaseImpl::file_bytes(Family *family, const Range &range) {
  rocksdb::SizeApproximationOptions options;
  options.include_files = true;
  options.include_memtables = false;
  options.files_size_error_margin = 0.1;
  uint64_t bytes = 0;
  (void)Raw::of(family)->GetApproximateSizes(options, family->handle(), &range, 1, &bytes);
  return bytes;
}

RangeEstimate DatabaseImpl::estimate(Family *family, std::string_view begin, std::string_view end) {
  RangeEstimate result = sizes(family, begin, end);
  RangeEstimate counted;
  if (begin >= end || result.bytes > kCountBytesMax ||
      !count_cached(family, Range(slice(begin), slice(end)), &counted))
    return result;
  // RocksDB tells no bytes of a few entries, or too many of small ones beside large ones in a memtable. The
  // counted bytes are too many for entries in files, because they are not compressed.
  if (result.bytes == 0 || counted.bytes < result.bytes) result.bytes = counted.bytes;
  result.entries = counted.entries;
  return result;
}

RangeEstimate DatabaseImpl::sizes(Family *family, std::string_view begin, std::string_view end) {
  RangeEstimate result;
  if (begin >= end) return result;
  rocksdb::DB *const database = Raw::of(family);
  const Range range(slice(begin), slice(end));
  const uint64_t on_disk = file_bytes(family, range);
  uint64_t in_memory_entries = 0;
  uint64_t in_memory_bytes = 0;
  database->GetApproximateMemTableStats(family->handle(), range, &in_memory_entries, &in_memory_bytes);
  result.bytes = on_disk + in_memory_bytes;
  result.entries = in_memory_entries;
  if (on_disk != 0) {
    const double entry = entry_bytes(static_cast<FamilyImpl *>(family), range);
    result.entries += static_cast<uint64_t>(static_cast<double>(on_disk) / entry);
  }
  return result;
}

uint64_t DatabaseImpl::total_bytes(Family *family) {
  uint64_t total = 0;
  for (const std::string &property :
       {rocksdb::DB::Properties::kLiveSstFilesSize, rocksdb::DB::Properties::kCurSizeAllMemTables}) {
    uint64_t bytes = 0;
    if (Raw::of(family)->GetIntProperty(family->handle(), property, &bytes)) total += bytes;
  }
  return total;
}

bool DatabaseImpl::takes_more_than(Family *family, std::string_view begin, std::string_view end,
                                   uint64_t bytes_max) {
  rocksdb::DB *const database = Raw::of(family);
  if (begin >= end || sum_of(gap_bytes(database, family, begin, end, {})) <= bytes_max) return false;
  const Slice upper = slice(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> rows(database->NewIterator(options, family->handle()));
  uint64_t bytes = 0;
  for (rows->Seek(slice(begin)); rows->Valid() && bytes <= bytes_max; rows->Next())
    bytes += rows->key().size() + rows->value().size();
  return bytes > bytes_max;
}

// Counts the entries of the range and their bytes if that needs no I/O. Returns false if there are more than
// kCountEntriesMax, or if some of them are not in memory.
bool DatabaseImpl::count_cached(Family *family, const Range &range, RangeEstimate *counted) {
  rocksdb::ReadOptions options;
  options.read_tier = rocksdb::kBlockCacheTier;
  options.iterate_upper_bound = &range.limit;
  options.total_order_seek = true;
  const std::unique_ptr<rocksdb::Iterator> rows = family->iterator(options);
  for (rows->Seek(range.start); rows->Valid(); rows->Next()) {
    if (++counted->entries > kCountEntriesMax) return false;
    counted->bytes += rows->key().size() + rows->value().size();
  }
  return rows->status().ok();
}

// Returns the average compressed bytes of an entry, for the index in which `range` starts. The figure comes
// from the properties of the largest table file in the range and is remembered for a minute. The file's index
// and filter blocks count, as they do in file_bytes().
double DatabaseImpl::entry_bytes(FamilyImpl *family, const Range &range) {
  const std::string prefix(range.start.data(), std::min(range.start.size(), kIndexPrefixBytes));
  const auto now = std::chrono::steady_clock::now();
  {
    MutexLock lock(family->entry_sizes_mutex);
    const auto found = family->entry_sizes.find(prefix);
    if (found != family->entry_sizes.end() && now - found->second.measured_at < kEntrySizeMaxAge) {
      return found->second.bytes;
    }
  }
  const std::vector<rocksdb::SstFileMetaData> files =
      files_in(Raw::of(family), family->handle(), view(range.start), view(range.limit));
  const rocksdb::SstFileMetaData *largest = nullptr;
  for (const rocksdb::SstFileMetaData &file : files)
    if (largest == nullptr || file.size > largest->size) largest = &file;
  double bytes = kEntryBytesGuess;
  if (largest != nullptr) {
    const Range one(largest->smallestkey, largest->smallestkey);
    rocksdb::TablePropertiesCollection properties;
    (void)Raw::of(family)->GetPropertiesOfTablesInRange(family->handle(), &one, 1, &properties);
    for (const auto &[path, table] : properties) {
      if (table->num_entries == 0 || !path.ends_with(largest->name)) continue;
      bytes = static_cast<double>(largest->size) / static_cast<double>(table->num_entries);
    }
  }
  MutexLock lock(family->entry_sizes_mutex);
  bytes = std::max(bytes, kEntryBytesMin);
  family->entry_sizes[prefix] = {bytes, now};
  return bytes;
}

// ---- splitting a range for parallel scans --------------------------------------------------------

std::vector<std::string> DatabaseImpl::split(Family *family, std::string_view begin, std::string_view end,
                                             size_t pieces) {
  if (pieces < 2 || begin >= end) return {};
  rocksdb::DB *const database = Raw::of(family);
  const std::vector<FilePart> files = parts_in(database, family, begin, end);
  if (files.size() >= kFilesPerPiece * pieces) return cut_between_files(files, end, pieces);

  const size_t per_file =
      std::clamp<size_t>(kKeysPerPiece * pieces / std::max<size_t>(files.size(), 1), 4, kKeysPerFileMax);
  std::vector<std::string> keys = candidates(files, begin, end, per_file);
  std::vector<uint64_t> gaps = gap_bytes(database, family, begin, end, keys);
  std::unique_ptr<rocksdb::Iterator> rows;
  for (int round = 0; round < kRefinements; ++round) {
    // If no gap is larger than half a piece, the pieces cannot become very uneven, and the loop ends. If keys
    // are spread evenly, it ends here in the first round.
    const uint64_t gap_bytes_max = std::max<uint64_t>(sum_of(gaps) / pieces / 2, kGapBytesMin);
    if (*std::max_element(gaps.begin(), gaps.end()) <= gap_bytes_max) break;
    if (rows == nullptr) rows.reset(database->NewIterator(rocksdb::ReadOptions(), family->handle()));
    if (!refine(rows.get(), begin, end, gaps, gap_bytes_max, &keys)) break;
    gaps = gap_bytes(database, family, begin, end, keys);
  }
  return cut_evenly(keys, gaps, pieces);
}

}  // namespace atoll::lsm
