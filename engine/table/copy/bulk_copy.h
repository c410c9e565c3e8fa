// Fills a new table for ALTER ... COPY and CREATE ... SELECT, without locks, undo or WAL.
//
// The first rows are kept in memory: a small table is written into the shared family in one batch. Beyond
// kSmallTableBytes the table gets a family of its own and everything goes through sorted ingestion. Of a row
// too large to be one value (large_rows.h) nothing but the piece at hand is held, beside what is being
// sorted.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "lsm/load/loads.h"
#include "lsm/rows.h"
#include "table/layout.h"

namespace atoll::table {

class BulkCopy {
 public:
  static constexpr size_t kSmallTableBytes = 4 << 20;
  // The limit when the copies of one statement are so many that they have used up its memory.
  static constexpr size_t kSmallTableBytesMin = 256 << 10;

  // Where the rows go. What is pointed to lives longer than the copy.
  struct Target {
    lsm::Rows *rows = nullptr;
    lsm::Loads *loads = nullptr;
    // Asked at the end: is a small table to be on the local disk when finish() returns?
    std::function<bool()> is_synced;
    // Gives the table, which is in the shared family, a family of its own; *layout: its layout there. Called
    // at most once.
    std::function<Status(std::shared_ptr<const Layout> *layout)> move_to_own_family;
  };

  BulkCopy(Target target, std::shared_ptr<const Layout> layout, std::shared_ptr<lsm::SortBudget> budget);
  ~BulkCopy();

  // Adds one row. Errors: kNoSpace, kUnavailable, kFenced, kDuplicate (presorted primary keys only).
  Status add(const uint8_t *record);

  // Makes all rows visible at once. *layout: what the table is now (it may have moved to a family of its
  // own). Errors: as add, kDuplicate (then duplicate_index() and duplicate_record()), kInterrupted.
  Status finish(const std::function<bool(double)> &progress, std::shared_ptr<const Layout> *layout);

  uint64_t rows() const { return rows_; }
  int duplicate_index() const { return duplicate_index_; }
  // Puts the duplicate's values into `record`; blobs point into the strings.
  void show_duplicate(uint8_t *record, std::string *key, std::string *value, std::string *scratch);

 private:
  struct Entry {
    size_t stream;
    std::string key, value;
  };

  Status add_row(const uint8_t *record);
  Status add_pieces(const uint8_t *record);
  Status add_entry(size_t stream, std::string_view key, std::string_view value);
  Status start_ingestion();
  void open_streams();
  Status write_small();
  void note_duplicate(size_t stream, std::string_view key, std::string_view value);

  bool is_small() const;

  const Target target_;
  std::shared_ptr<const Layout> layout_;
  const std::shared_ptr<lsm::SortBudget> budget_;
  std::vector<Entry> small_;
  size_t small_bytes_ = 0;  // also in the budget
  std::unique_ptr<lsm::BulkLoad> load_;
  std::vector<size_t> streams_;          // load stream of: [0] rows, [1 + i] index i
  std::optional<size_t> pieces_stream_;  // of rows too large to be one value, once there is one
  uint64_t next_hidden_id_ = 1;
  uint64_t rows_ = 0;
  int duplicate_index_ = -1;
  bool duplicate_is_row_ = false;
  std::string duplicate_key_, duplicate_value_;
  std::string primary_key_, key_, value_;
};

}  // namespace atoll::table
