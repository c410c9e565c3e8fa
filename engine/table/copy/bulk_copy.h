// Fills a new table for ALTER ... COPY and CREATE ... SELECT, without locks and undo. Only the rows of a
// small table go through the log.
//
// The first rows are kept in memory, so that a small table can be written into the shared family in one
// batch. Beyond kSmallTableBytes the table gets a family of its own and all its rows are sorted and ingested.
// A row that is too large to be one value (large_rows.h) is added piece by piece, so only one piece of it is
// copied at a time.
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
  // Replaces kSmallTableBytes as the limit once all copies of one statement together have used up the
  // statement's memory for sorting.
  static constexpr size_t kSmallTableBytesMin = 256 << 10;

  // Where the rows are written. The objects pointed to must outlive the copy.
  struct Target {
    lsm::Rows *rows = nullptr;
    lsm::Loads *loads = nullptr;
    // finish() asks whether it must sync the rows of a small table to the local disk before it returns.
    std::function<bool()> is_synced;
    // Moves the table from the shared family into a family of its own; *layout: its layout there. Called at
    // most once.
    std::function<Status(std::shared_ptr<const Layout> *layout)> move_to_own_family;
  };

  BulkCopy(Target target, std::shared_ptr<const Layout> layout, std::shared_ptr<lsm::SortBudget> budget);
  ~BulkCopy();

  // Adds one row. Errors: kInvalid (the row is too large), kNoSpace, kUnavailable, kFenced; kDuplicate, only
  // in keys that come presorted. finish() finds all other duplicates.
  Status add(const uint8_t *record);

  // Makes all rows visible at once. *layout: the present layout of the table. It differs from that of the
  // constructor if the table has moved to a family of its own. Errors: as add(); kDuplicate, after which the
  // caller asks duplicate_index() and show_duplicate(); kInterrupted.
  Status finish(const std::function<bool(double)> &progress, std::shared_ptr<const Layout> *layout);

  uint64_t rows() const { return rows_; }
  int duplicate_index() const { return duplicate_index_; }
  // Puts the values of the duplicate into `record`, for the message. BLOB columns of the record then point
  // into *value.
  void show_duplicate(uint8_t *record, std::string *value);

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
  size_t small_bytes_ = 0;  // the bytes of small_, which are also counted in budget_
  std::unique_ptr<lsm::BulkLoad> load_;
  std::vector<size_t> streams_;          // the load's streams: [0] for rows, [1 + i] for index i
  std::optional<size_t> pieces_stream_;  // opened with the first row that is stored in pieces
  uint64_t next_hidden_id_ = 1;
  uint64_t rows_ = 0;
  int duplicate_index_ = -1;
  bool duplicate_is_row_ = false;
  std::string duplicate_key_, duplicate_value_;
  std::string primary_key_, key_, value_;
};

}  // namespace atoll::table
