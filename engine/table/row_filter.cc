// See row_filter.h.
#include "table/row_filter.h"

#include "base/mutant.h"
#include "base/work.h"
#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

constexpr uint32_t kUnaskedRows = 8;
constexpr uint32_t kPassesMax = 8;
constexpr uint32_t kAskedEvery = 16;

}  // namespace

void RowFilter::set_condition(bool is_pushed) {
  is_pushed_ = is_pushed;
  unasked_ = passed_in_row_ = 0;
}

const codec::Predicate *RowFilter::predicate() {
  const codec::Predicate *predicate = is_pushed_ ? view_.predicate() : nullptr;
  if (predicate == nullptr) is_pushed_ = false;
  return predicate;
}

// Whether the predicate is evaluated on the next row. A locking scan always evaluates it, because a refused
// row may need no lock (RowCursor::accept_row()). A read by the whole primary key locks the row before it
// reads it, so there the predicate saves no lock.
bool RowFilter::is_due(bool is_point_read) {
  if (table_.locking() && !is_point_read) return true;
  if (unasked_ < kUnaskedRows || is_mutant(Mutant::scan_predicate)) {
    unasked_++;
    return false;
  }
  return passed_in_row_ < kPassesMax || ++passed_in_row_ % kAskedEvery == 0;
}

Status RowFilter::evaluate(const std::string &primary_key, std::string_view packed, bool *passes) {
  count_work(WorkKind::kConditions);
  codec::Truth truth = codec::Truth::kFalse;
  std::string whole;
  *passes = false;
  Status status;
  if (codec::is_large_row(packed)) {
    status =
        join_row_at(table_.layout(), table_.transaction(), table_.read_at(), primary_key, packed, &whole);
    packed = whole;
  }
  if (status.ok()) status = view_.predicate()->evaluate(table_.layout().row(), packed, &truth);
  *passes = status.ok() && truth == codec::Truth::kTrue;
  passed_in_row_ = *passes ? passed_in_row_ + 1 : 0;
  if (!*passes) view_.note_refused_row();
  return status;
}

}  // namespace atoll::table
