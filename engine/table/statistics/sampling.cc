// See sampling.h.
#include "table/statistics/sampling.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace atoll::table {
namespace {

// The number of pieces of an index that are sampled. One piece is not enough, because values that cluster at
// one end of the index would stand for the whole.
constexpr size_t kPieces = 8;

// Counts, for the first part of an index, for its first two parts and so on, how often the value of these
// parts changes from one entry to the next. The parts include those of the primary key, which follow the
// index's own.
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
  // Returns the average number of entries per value. `whole`: all entries of the index were added, as one
  // piece. If not, a piece may begin and end between entries of the same value.
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

Status sample_index(const Layout &layout, const IndexLayout &index, lsm::Figures *figures,
                    uint64_t entries_max, const std::function<bool()> &is_cancelled, TableStatistics *out) {
  std::vector<std::string> starts{index.start};
  if (figures->estimate(layout.family(), index.start, index.end).entries > entries_max) {
    for (std::string &cut : figures->split(layout.family(), index.start, index.end, kPieces))
      starts.push_back(std::move(cut));
  }
  ChangeCounter counter(index);
  // If there is one piece and it ended before `piece_entries` entries were read, it was the whole index.
  const uint64_t piece_entries = entries_max / starts.size();
  for (size_t i = 0; i < starts.size(); i++) {
    const std::string_view end = i + 1 < starts.size() ? starts[i + 1] : index.end;
    ATOLL_RETURN_IF_ERROR(sample_piece(layout, starts[i], end, piece_entries, is_cancelled, &counter));
  }
  const bool whole = starts.size() == 1 && counter.entries() < piece_entries;
  // The smallest count of all indexes is taken, because rows that are committed during the sampling are only
  // in the indexes that are read later.
  const auto entries = static_cast<int64_t>(counter.entries());
  if (whole) out->rows = out->rows < 0 ? entries : std::min(out->rows, entries);
  out->records_per_key.push_back(counter.records_per_key(whole));
  return Status::Ok();
}

}  // namespace

std::string encode(const TableStatistics &statistics) {
  std::string out = std::to_string(statistics.rows) + '/' + std::to_string(statistics.sampled_rows);
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
  statistics->sampled_rows = statistics->rows;
  if (number.ptr < end && *number.ptr == '/') {
    number = std::from_chars(number.ptr + 1, end, statistics->sampled_rows);
    if (number.ec != std::errc()) return false;
  }
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

Status sample(const Layout &layout, lsm::Figures *figures, uint64_t entries_max,
              const std::function<bool()> &is_cancelled, TableStatistics *out) {
  for (size_t i = 0; i < layout.index_count(); i++)
    ATOLL_RETURN_IF_ERROR(sample_index(layout, layout.index(i), figures, entries_max, is_cancelled, out));
  return Status::Ok();
}

}  // namespace atoll::table
