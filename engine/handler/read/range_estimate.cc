// ha_atoll: how many rows lie in a range, for the optimizer. table/statistics/range_estimate.h counts them.
#include "handler/ha_atoll.h"

#include <sql_class.h>

#include <algorithm>

#include "base/mutant.h"
#include "engine/running.h"

namespace at = atoll::table;

namespace {

// Whether the optimizer already knows, for this statement, that some index finds at most one row. Then
// nothing is read for the other indexes, because none of them can be better. The optimizer asks about the
// primary key first and then about unique indexes. UPDATE and DELETE by a whole primary key also ask about
// each other index that begins with a column of the primary key; SELECT does not.
bool is_one_row_known(const TABLE &table) {
  if (atoll::is_mutant(atoll::Mutant::one_row_known)) return false;
  for (uint index = 0; index < table.s->keys; index++)
    if (table.opt_range_keys.is_set(index) && table.opt_range[index].rows <= 1) return true;
  return false;
}

// Estimates the rows in `bounds` from the sampled statistics. The lower end of `bounds` has `parts` columns
// of the index.
ha_rows rows_by_statistics(const KEY &index, const at::Bounds &bounds, size_t parts, double table_rows) {
  // The assumed share of the table for a range of several values. No plan depends on it, because the
  // optimizer already knows an index that finds at most one row.
  constexpr double kShareOfRange = 1.0 / 3;
  if (parts > 0 && atoll::codec::key_after_prefix(bounds.lower) == bounds.upper)
    return std::max<ha_rows>(index.rec_per_key[std::min<size_t>(parts, index.user_defined_key_parts) - 1], 1);
  return static_cast<ha_rows>(std::max(table_rows * kShareOfRange, 1.0));
}

}  // namespace

// Returns at least 1. EXPLAIN does not read the rows afterwards, so it must not begin the consistent read of
// the transaction.
ha_rows ha_atoll::records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                                   page_range *) {
  atoll::count_work(atoll::WorkKind::kRangeEstimates);
  at::EstimateRequest request;
  size_t parts = 0;
  request.index = index;
  request.bounds = keys_.bounds(index, min_key, max_key, &parts);
  if (request.bounds.lower >= request.bounds.upper) return 1;
  request.table_rows = static_cast<double>(std::max<int64_t>(share_->rows, 1));
  if (is_one_row_known(*table))
    return rows_by_statistics(table->key_info[index], request.bounds, parts, request.table_rows);
  const LEX *lex = ha_thd()->lex;
  request.is_read_afterwards = !is_sequence() && (!lex->describe || lex->analyze_stmt);
  return at::estimate_rows(&reader_, atoll::engine::running()->database(), &share_->estimates, request);
}
