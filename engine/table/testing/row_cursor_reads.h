// Tests only: makes random parameters for reads by a RowCursor.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "table/testing/row_cursor_fixture.h"

namespace atoll::table {

constexpr uint32_t kIds = 24;  // few ids, so that sessions often read and write the same rows

// The parameters of one read, and how far it has got.
struct Read {
  size_t index = kPrimary;
  Seek seek;
  std::optional<Bounds> given;
  bool is_scan = false;  // true: a scan of the whole table, not a search in an index
  RowLock lock = RowLock::kNone;
  std::optional<uint32_t> condition = {};
  bool has_even_condition = false;

  Bounds bounds = {};         // the bounds of the next step
  std::string prefix = {};    // the prefix that bounds the next step; empty: none
  std::string position = {};  // the key of the row returned last; before the first row, the key of the search
  bool is_at_start = true;
  Bounds touched = {};         // the keys that the read has passed, and so may have locked
  std::vector<Row> rows = {};  // the rows returned so far

  void touch_all(bool forward) {
    if (forward)
      touched.upper = std::max(touched.upper, bounds.upper);
    else
      touched.lower = std::min(touched.lower, bounds.lower);
  }
};

// Returns ranges that contain the same keys as `ranges`, but of which no two touch or overlap.
inline std::vector<Bounds> merged(std::vector<Bounds> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Bounds &a, const Bounds &b) { return a.lower < b.lower; });
  std::vector<Bounds> merged;
  for (const Bounds &bounds : ranges) {
    if (merged.empty() || bounds.lower > merged.back().upper)
      merged.push_back(bounds);
    else
      merged.back().upper = std::max(merged.back().upper, bounds.upper);
  }
  return merged;
}

class RandomReads {
 public:
  RandomReads(const TestTable &table, codec::testing::Random *random) : table_(table), random_(*random) {}
  void set_layout(std::shared_ptr<const Layout> layout) { layout_ = std::move(layout); }

  Row row(uint32_t id) {
    Row row{.id = id};
    if (!random_.one_in(5)) row.a = static_cast<uint32_t>(random_.below(5));
    // In most cases `u` gets a value that only rows with this id can have.
    if (random_.one_in(8))
      row.u = static_cast<uint32_t>(random_.below(kIds * 2));
    else if (!random_.one_in(5))
      row.u = static_cast<uint32_t>(id * 2 + random_.below(2));
    return row;
  }

  std::string key(size_t index) {
    const auto id = static_cast<uint32_t>(random_.below(kIds + 2));
    return table_.key(*layout_, index, row(id), index != kPrimary && random_.one_in(3) ? 2 : 1);
  }
  Bounds bounds(size_t index) {
    Bounds found{key(index), key(index)};
    if (found.upper < found.lower) std::swap(found.lower, found.upper);
    if (random_.one_in(3)) found.upper = codec::key_after_prefix(found.upper);
    if (random_.one_in(5)) found.lower = layout_->index(index).start;
    if (random_.one_in(5)) found.upper = layout_->index(index).end;
    return found;
  }

  Read read() {
    Read read;
    read.is_scan = random_.one_in(8);
    if (read.is_scan) return read;
    read.index = random_.below(kIndexes);
    Seek &seek = read.seek;
    seek.rows_wanted = random_.one_in(2) ? 1 : 5;
    seek.forward = random_.one_in(2);
    const IndexLayout &index = layout_->index(read.index);
    if (random_.one_in(4)) {
      seek.key = seek.forward ? index.start : index.end;
      seek.reach = Seek::Reach::kWholeIndex;
    } else {
      seek.key = key(read.index);
      const bool is_exact = random_.one_in(2);
      if (is_exact) seek.prefix = seek.key;
      if (is_exact && read.index != kPrimary) seek.parts = user_parts_of(read.index, seek.key);
      if (!seek.forward || (!is_exact && random_.one_in(2))) seek.key = codec::key_after_prefix(seek.key);
      if (!seek.forward) seek.parts = 0;
      if (seek.forward && !is_exact && random_.one_in(2)) seek.reach = Seek::Reach::kAfterKey;
      seek.prefix_stays = is_exact && !seek.forward;
    }
    if (random_.one_in(2)) read.given = bounds(read.index);
    if (!read.given) return read;
    // The server always begins a search within the range that it gives.
    Bounds &given = *read.given;
    if (seek.prefix.empty()) {
      seek.key = std::clamp(seek.key, given.lower, given.upper);
    } else {
      given.lower = std::min(given.lower, seek.prefix);
      given.upper = std::max(given.upper, codec::key_after_prefix(seek.prefix));
    }
    return read;
  }

 private:
  // Returns 1 if the key consists of exactly the index's own part, without the primary key; otherwise 0.
  size_t user_parts_of(size_t index, const std::string &key) const {
    size_t length = 0;
    return layout_->user_part_length(index, key, &length).ok() && length == key.size() ? 1 : 0;
  }

  const TestTable &table_;
  codec::testing::Random &random_;
  std::shared_ptr<const Layout> layout_;
};

inline std::string shown(const std::vector<Bounds> &all) {
  std::string text;
  for (const Bounds &bounds : all) text += "[" + to_hex(bounds.lower) + " to " + to_hex(bounds.upper) + ") ";
  return text;
}

inline std::string describe(const Session &session, const Read &read) {
  const auto hex = [](const std::string &key) { return to_hex(key.substr(std::min<size_t>(key.size(), 4))); };
  const ReadMode &mode = session.open_table.mode();
  std::string text = "index " + std::to_string(read.index) + (read.is_scan ? ", all of the table" : "");
  text += std::string(read.seek.forward ? ", forward" : ", backward") + " from " + hex(read.seek.key) +
          ", prefix " + hex(read.seek.prefix) + ", reach " +
          std::to_string(static_cast<int>(read.seek.reach));
  if (read.given) text += ", within " + hex(read.given->lower) + " to " + hex(read.given->upper);
  if (session.condition) text += ", id >= " + std::to_string(*session.condition);
  return text + (session.keeps_snapshot() ? ", repeatable read" : ", read committed") + ", lock " +
         std::to_string(static_cast<int>(mode.lock)) + (mode.skip_locked ? ", skip locked" : "");
}

}  // namespace atoll::table
