// ha_atoll: how many rows lie in a range, for the optimizer. table/statistics/range_estimate.h counts them.
#include "handler/ha_atoll.h"

#include <sql_class.h>

#include <algorithm>

#include "base/mutant.h"
#include "engine/running.h"

namespace at = atoll::table;

namespace {

// Has the optimizer learnt, for this statement, that an index finds one row at most? Then nothing is read for
// the indexes after it: none of them is better. It asks the primary key first and then unique indexes. UPDATE
// and DELETE by a whole primary key come here for each other index that begins with a column of it; SELECT
// does not.
bool is_one_row_known(const TABLE &table) {
  if (atoll::is_mutant(atoll::Mutant::one_row_known)) return false;
  for (uint index = 0; index < table.s->keys; index++)
    if (table.opt_range_keys.is_set(index) && table.opt_range[index].rows <= 1) return true;
  return false;
}

// What the sampled statistics say of `bounds`, whose lower end has `parts` columns of the index.
ha_rows rows_by_statistics(const KEY &index, const at::Bounds &bounds, size_t parts, double table_rows) {
  constexpr double kShareOfRange = 1.0 / 3;  // of a range that is not one value; it decides nothing
  if (parts > 0 && atoll::codec::key_after_prefix(bounds.lower) == bounds.upper)
    return std::max<ha_rows>(index.rec_per_key[std::min<size_t>(parts, index.user_defined_key_parts) - 1], 1);
  return static_cast<ha_rows>(std::max(table_rows * kShareOfRange, 1.0));
}

}  // namespace

// Never returns 0. EXPLAIN must not begin the transaction's consistent read.
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
