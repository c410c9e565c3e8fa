// See server_handler.h.
//
// 11.8 counts in milliseconds, and separately what is read and what is computed. The numbers here are derived
// from those of 10.11: a page is as many blocks as one of InnoDB's, and a row costs what one of InnoDB costs
// (the constants of update_costs() are InnoDB's). So plans of joins between tables of both engines compare
// equal things.
#include "handler/server/compat/server_handler.h"

#include "handler/server/callback.h"

namespace atoll::handler {

#if MYSQL_VERSION_ID < 110000

ha_rows ServerHandler::ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                         uint range_count, uint *buffer_bytes, uint *mode,
                                         const RangesCost &cost) {
  return ::handler::multi_range_read_info_const(index, ranges, ranges_context, range_count, buffer_bytes,
                                                mode, cost.cost);
}

void fill_series_callbacks(handlerton *) {}

#else

namespace {

constexpr double kPageBytes = 16.0 * 1024;
constexpr double kBlocksPerPage = kPageBytes / IO_SIZE;

void update_costs(OPTIMIZER_COSTS *costs) noexcept {
  costs->row_next_find_cost = 0.00007013;
  costs->row_lookup_cost = 0.00076597;
  costs->key_next_find_cost = 0.00009900;
  costs->key_lookup_cost = 0.00079112;
  costs->row_copy_cost = 0.00006087;
}

}  // namespace

ulonglong ServerHandler::row_blocks() noexcept {
  return static_cast<ulonglong>(scan_pages() * kBlocksPerPage);
}

IO_AND_CPU_COST ServerHandler::scan_time() noexcept {
  const double pages = scan_pages();
  return {pages * kBlocksPerPage, pages * INDEX_BLOCK_COPY_COST};
}

IO_AND_CPU_COST ServerHandler::keyread_time(uint index, ulong ranges, ha_rows rows,
                                            ulonglong blocks) noexcept {
  if (index != table_share->primary_key || blocks != 0)
    return ::handler::keyread_time(index, ranges, rows, blocks);
  const double pages = range_pages(ranges, rows);
  return {pages * kBlocksPerPage, pages * INDEX_BLOCK_COPY_COST};
}

// The server itself adds the cost of a lookup for each row. What is added here is what many lookups cost
// more.
IO_AND_CPU_COST ServerHandler::rnd_pos_time(ha_rows rows) noexcept {
  const auto count = static_cast<double>(rows);
  const double dearer = lookup_pages(0, rows) - count;
  return {count * kBlocksPerPage, count * INDEX_BLOCK_COPY_COST + dearer * ROW_LOOKUP_COST};
}

ha_rows ServerHandler::ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                         uint range_count, uint *buffer_bytes, uint *mode,
                                         const RangesCost &cost) {
  return ::handler::multi_range_read_info_const(index, ranges, ranges_context, range_count, buffer_bytes,
                                                mode, cost.rows_wanted, cost.cost);
}

void fill_series_callbacks(handlerton *hton) {
  hton->update_optimizer_costs = guarded_function<update_costs, is_logged>;
}

#endif

}  // namespace atoll::handler
