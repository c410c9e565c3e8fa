// The functions of the server that a read of rows needs: the conditions that the server has pushed down, and
// virtual columns. The handler implements them over its TABLE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "codec/predicate.h"
#include "txn/transaction.h"

namespace atoll::table {

// The result of a pushed condition, evaluated on the columns of an index entry.
enum class Verdict : uint8_t {
  kPasses,
  kRefused,
  kBehindRange,  // this entry and all entries after it lie after the end of the range
  kStop,         // the statement must end with an error that the view has noted
};

// What a read asks the server about a row. The handler's ServerView implements it, and each test one of its
// own. Threads: only the thread of the running statement.
class RowView {
 public:
  virtual ~RowView() = default;

  // The record on which conditions are evaluated.
  virtual uint8_t *record() = 0;

  // Whether the server has pushed a condition on the columns of the active index. check_entry() evaluates it;
  // the caller unpacks these columns into record() before.
  virtual bool has_entry_condition() const = 0;
  virtual Verdict check_entry() = 0;
  // Whether the server has pushed a filter on primary keys. It only saves lookups of rows, so an entry that
  // passes by mistake does no harm. check_row_filter() evaluates it. Before, the caller unpacks the columns
  // of the entry into record(), and sets RowCursor::primary_key() to the key of the entry's row.
  virtual bool has_row_filter() const = 0;
  virtual Verdict check_row_filter() = 0;

  // The part of the pushed condition that can be evaluated on packed rows; nullptr: no part can. Called only
  // while a condition is pushed.
  virtual const codec::Predicate *predicate() = 0;
  // Called when the predicate has refused a row. The server does not see such a row, but must count it,
  // because warnings name rows by their number.
  virtual void note_refused_row() = 0;

  // Completes the record of a row that was found by the active index: computes the virtual columns that the
  // server expects in the record and does not compute itself.
  virtual void complete(uint8_t *record) = 0;
  // Computes the virtual columns of index `index` in `record`, if there are any. False: they cannot be
  // computed in that record.
  virtual bool compute_virtual_columns(size_t index, uint8_t *record) = 0;
};

}  // namespace atoll::table
