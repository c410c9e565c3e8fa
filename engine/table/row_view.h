// What reading rows asks of the server: conditions that it has pushed down, and virtual columns. The handler
// implements it over its TABLE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "codec/predicate.h"
#include "txn/transaction.h"

namespace atoll::table {

// The result of a condition of the server, evaluated on the columns of an entry.
enum class Verdict : uint8_t {
  kPasses,
  kRefused,
  kBehindRange,  // so are all entries after it
  kStop,         // the statement ends, and the view knows by what error
};

class RowView {
 public:
  virtual ~RowView() = default;

  // The record that conditions are evaluated on.
  virtual uint8_t *record() = 0;

  // A condition on the columns of the active index, which stand in record().
  virtual bool has_entry_condition() const = 0;
  virtual Verdict check_entry() = 0;
  // A filter on primary keys. It only saves looking rows up: an entry that passes by mistake does no harm.
  // When it is asked, the columns of the entry stand in record() and RowCursor::primary_key() is its row's.
  virtual bool has_row_filter() const = 0;
  virtual Verdict check_row_filter() = 0;

  // The pushed condition as far as it can be evaluated on packed rows; nullptr: not at all. Asked only while
  // a condition is pushed.
  virtual const codec::Predicate *predicate() = 0;
  // The predicate has refused a row, which the server never sees.
  virtual void note_refused_row() = 0;

  // Computes what the server expects in a record of a row found by the active index and does not compute
  // itself.
  virtual void complete(uint8_t *record) = 0;
  // Computes the virtual columns of index `index` in `record`, if there are any. False: they cannot be
  // computed in that record.
  virtual bool compute_virtual_columns(size_t index, uint8_t *record) = 0;
};

}  // namespace atoll::table
