// Compares the rows of a table with the entries of its indexes, and with what its definition says about them.
//
// All reads of one check use one snapshot, so that rows and entries belong together while other sessions
// write:
//
//   rows ──▶ decode ──▶ the entries that they must have ──▶ a sum for each index ──┐
//   entries of each index ───────────────────────────────▶ a sum ──────────────────┴──▶ equal?
//
// Both sides are scans, because a lookup of the entries of each row would read a block of the index for each
// entry. Only if the sums of an index differ, its entries and rows are looked up one by one, to name those
// that are wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/upkeep/upkeep.h"
#include "table/layout.h"
#include "txn/transaction.h"

namespace atoll::table {

// The functions of the server that a check needs. The handler implements them over its TABLE.
class CheckView {
 public:
  virtual ~CheckView() = default;

  // The record into which the check unpacks rows.
  virtual uint8_t *record() = 0;
  // Computes the virtual columns of index `index` in record().
  virtual void compute_virtual_columns(size_t index) = 0;
  // Tests the values of the row in record() by the table's definition: stored generated columns and CHECK
  // constraints. Leaves record() as it is. Returns a text for each damaged value. The view itself tells the
  // user about constraints that the row violates, because this is no damage. `primary_key`: the key of that
  // row.
  virtual std::vector<std::string> test_values(std::string_view primary_key) = 0;
  // Returns the text by which messages name the row in record(). `primary_key`: the key of that row.
  virtual std::string row_text(std::string_view primary_key) = 0;
  virtual bool is_killed() const = 0;

  // Reports a problem to the user. `index`: the index with the problem; empty if the rows have it.
  virtual void complain(const std::string &index, const std::string &problem) = 0;
  // Called when the entries of an index do not match the rows. If the index has virtual columns, the view
  // then tells the user that their expressions may give other values than when the rows were written,
  // and that in this case nothing is damaged.
  virtual void explain_difference(size_t index) = 0;
};

// Threads: one at a time.
class TableCheck {
 public:
  // The arguments must outlive the check. `upkeep` verifies the files.
  TableCheck(const Layout &layout, txn::Transaction *transaction, lsm::Upkeep *upkeep, CheckView *view)
      : layout_(layout),
        transaction_(*transaction),
        upkeep_(*upkeep),
        view_(*view),
        sums_(layout.index_count()) {}

  // From now on, rows and keys are also encoded by `described`, the layout that was built from the catalog's
  // description alone (handler/layout.h, described_layout()), with records of `record_bytes`. They must be
  // the same bytes.
  void compare_with(std::shared_ptr<const Layout> described, size_t record_bytes) {
    described_ = std::move(described);
    described_record_.resize(record_bytes);
  }
  // Checks the rows, their pieces and all indexes. `with_files`: first verifies the checksum of each block.
  // Stops early when it has named ten problems. Call it once. Requests to the bucket: as a read of the
  // table, and `with_files` as a read of its files once more. Errors: kCorruption: damage keeps the check
  // from continuing, and the check has not reported it to the view; kInterrupted; and as a read.
  Status run(bool with_files);
  // The number of problems that were named. The check stops after kProblemsMax problems.
  uint64_t problems() const { return problems_; }
  static constexpr uint64_t kProblemsMax = 10;

 private:
  // A sum over entries that does not depend on their order. Equal sets of entries have equal sums, different
  // sets almost never (64 bits).
  class EntrySum {
   public:
    void add(std::string_view key, std::string_view value) {
      const std::hash<std::string_view> hash;
      count_++;
      hashes_ +=
          hash(key) * (2 * static_cast<uint64_t>(hash(value)) + 1);  // notices two values that are exchanged
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
  Status unpack_described();
  void compare_described(size_t index);
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
  std::vector<EntrySum> sums_;  // by index: the sum of the entries that the rows must have
  uint64_t problems_ = 0, read_ = 0, pieces_ = 0;
  std::string key_;  // the primary key of the row in the record
  std::string entry_key_, entry_value_, large_row_;
  std::string_view packed_row_;  // the row in the record

  std::shared_ptr<const Layout> described_;  // nullptr: the description is not compared
  std::vector<uint8_t> described_record_;
  std::string described_key_, described_value_;
};

}  // namespace atoll::table
