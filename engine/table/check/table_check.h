// Compares the rows of a table with the entries of its indexes.
//
// All reads of one check are made at one snapshot, so that rows and entries belong together while others
// write:
//
//   rows ──▶ decode ──▶ the entries that they must have ──▶ a sum for each index ──┐
//   entries of each index ───────────────────────────────▶ a sum ──────────────────┴──▶ equal?
//
// Both are scans. To look up the entries of each row instead would read a block of the index for each entry.
// Only where sums differ, entries and rows are looked up, to name what is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/upkeep/upkeep.h"
#include "table/layout.h"
#include "txn/transaction.h"

namespace atoll::table {

// What a check asks of the server. The handler implements it over its TABLE.
class CheckView {
 public:
  virtual ~CheckView() = default;

  // Rows are unpacked into it.
  virtual uint8_t *record() = 0;
  // Computes the virtual columns of index `index` in record().
  virtual void compute_virtual_columns(size_t index) = 0;
  // How messages name the row in record(), whose primary key this is.
  virtual std::string row_text(std::string_view primary_key) = 0;
  virtual bool is_killed() const = 0;

  // Tells the user. `index`: empty for the rows.
  virtual void complain(const std::string &index, const std::string &problem) = 0;
  // Called when the entries of an index are not those of its rows. If it has virtual columns, the reason may
  // be another one than damage.
  virtual void explain_difference(size_t index) = 0;
};

// Threads: one at a time.
class TableCheck {
 public:
  // What the arguments point to must outlive the check. `upkeep` verifies the files.
  TableCheck(const Layout &layout, txn::Transaction *transaction, lsm::Upkeep *upkeep, CheckView *view)
      : layout_(layout),
        transaction_(*transaction),
        upkeep_(*upkeep),
        view_(*view),
        sums_(layout.index_count()) {}

  // `with_files`: first verifies the checksum of each block. Ends early when it has named ten problems. Call
  // it once. Requests to the bucket: those of reading the table, and its files once more `with_files`.
  // Errors: kCorruption: something is damaged that keeps the check from going on, and view was not told of
  // it; kInterrupted; and those of reading.
  Status run(bool with_files);
  // How many problems were named. After kProblemsMax of them the check stops.
  uint64_t problems() const { return problems_; }
  static constexpr uint64_t kProblemsMax = 10;

 private:
  // A sum that is equal for equal sets of entries, in whatever order they come, and almost never for
  // different sets (64 bits).
  class EntrySum {
   public:
    void add(std::string_view key, std::string_view value) {
      const std::hash<std::string_view> hash;
      count_++;
      hashes_ +=
          hash(key) * (2 * static_cast<uint64_t>(hash(value)) + 1);  // which value is of which key counts
    }
    bool operator==(const EntrySum &) const = default;

   private:
    uint64_t count_ = 0, hashes_ = 0;
  };
  using Visit = std::function<Status(std::string_view key, std::string_view value)>;

  void complain(const std::string &index, const std::string &problem);
  Status note(const Status &status, const std::string &index, const std::string &what);
  Status each(const std::string &start, const std::string &end, const Visit &visit);
  Status get(std::string_view key, rocksdb::PinnableSlice *value);

  Status check_files();
  Status check_rows();
  Status add_row(std::string_view stored);
  Status read_row(std::string_view stored);
  Status check_pieces();
  Status check_indexes();
  Status check_index(size_t number);
  void make_entry(size_t index);
  Status name_missing(size_t number);
  Status name_extra(size_t number);

  const Layout &layout_;
  txn::Transaction &transaction_;
  lsm::Upkeep &upkeep_;
  CheckView &view_;
  std::vector<EntrySum> sums_;  // by index: of the entries that the rows must have
  uint64_t problems_ = 0, read_ = 0, pieces_ = 0;
  std::string key_;  // of the row in the record
  std::string entry_key_, entry_value_, large_row_;
};

}  // namespace atoll::table
