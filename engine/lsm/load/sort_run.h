// A run of ExternalSort: rows in memory, which are sorted by an array of their offsets, or rows in a file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::lsm {

// Walks the rows of a sorted run.
class RunCursor {
 public:
  virtual ~RunCursor() = default;
  // The current row; key and value are valid until next().
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  // Moves to the next row; the first call moves to the first row. Sets *more to false after the last row.
  virtual Status next(bool *more) = 0;

 protected:
  std::string_view key_, value_;
};

// Writes a run to a file: blocks of rows, compressed with LZ4.
class RunWriter {
 public:
  // Errors, also those of add() and finish(): kNoSpace, kUnavailable.
  static Status open(const std::string &path, std::unique_ptr<RunWriter> *out);
  // The rows come in ascending order.
  Status add(std::string_view key, std::string_view value);
  Status finish();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;
  RunWriter(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Status flush();

  const File file_;
  const std::string path_;
  std::string block_, packed_;
};

// A run in memory. It is filled first, then sorted, then read.
class SortRun {
 public:
  explicit SortRun(size_t bytes_max);

  // False: the run has no room for a row of these lengths. add() requires that it has.
  bool fits(size_t key_bytes, size_t value_bytes) const;
  void add(std::string_view key, std::string_view value);
  void sort();

  size_t rows() const { return rows_; }
  uint64_t memory_bytes() const { return capacity_ + order_.size() * sizeof(Entry); }
  static uint64_t sorted_bytes(uint64_t capacity, size_t rows) { return capacity + rows * sizeof(Entry); }

  // Requires: the run is sorted and outlives the cursor.
  std::unique_ptr<RunCursor> cursor() const;
  // Writes all rows to `writer`. Errors: the writer's. Requires: the run is sorted.
  Status spill(RunWriter *writer) const;
  // Requires: the run is sorted and not empty.
  std::string_view first_key() const { return key_at(order_.front().offset); }
  std::string_view last_key() const { return key_at(order_.back().offset); }

 private:
  friend class MemoryCursor;
  // A row in the sorted array order_. `offset`: where the row begins in bytes_. `high` and `low` are the 12
  // key bytes after the prefix that all keys share. They decide nearly every comparison, so that the row
  // itself is not read.
  struct Entry {
    uint64_t high;
    uint32_t low;
    uint32_t offset;
  };
  void index_rows();
  size_t shared_prefix_bytes() const;
  std::string_view key_at(uint32_t offset) const;
  std::string_view value_at(uint32_t offset) const;
  uint32_t row_end(uint32_t offset) const;

  const size_t capacity_;          // size of bytes_
  std::unique_ptr<char[]> bytes_;  // the rows, in the order in which they were added
  size_t used_ = 0;                // how many bytes of bytes_ have rows
  size_t rows_ = 0;
  std::vector<Entry> order_;  // the rows in key order; filled by sort()
};

// Opens a file that a RunWriter wrote. Returns nullptr and sets *status if that fails. Errors: kUnavailable.
// Errors of the cursor's next(): kCorruption, kUnavailable.
std::unique_ptr<RunCursor> open_spilled_run(const std::string &path, Status *status);

}  // namespace atoll::lsm
