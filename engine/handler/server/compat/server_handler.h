// The class between the server's `handler` and ha_atoll. It has the virtual functions whose signatures differ
// between the series of MariaDB, so that ha_atoll looks the same for all of them.
#pragma once

#include "handler/server.h"

namespace atoll::handler {

// Where the server wants the cost of many ranges, and what else it says about it.
struct RangesCost {
  Cost_estimate *cost;
  ha_rows rows_wanted;  // of LIMIT, in 11.8; HA_POS_ERROR: no limit, or not known
};

class ServerHandler : public ::handler {
 public:
  using ::handler::handler;

  // ---- costs, for the optimizer; the unit is the time for one page of 16 KiB of uncompressed rows ----

  // A scan of the whole table.
  virtual double scan_pages() noexcept = 0;
  // Rows in ranges of the primary key.
  virtual double range_pages(ulong ranges, ha_rows rows) noexcept = 0;
  // Rows that are looked up one by one, found by ranges of a secondary index.
  virtual double lookup_pages(ulong ranges, ha_rows rows) noexcept = 0;

  // ---- many ranges: handler::multi_range_read_info_const ----
  virtual ha_rows ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count,
                                    uint *buffer_bytes, uint *mode, const RangesCost &cost);

#if MYSQL_VERSION_ID < 110000
  double scan_time() noexcept final { return scan_pages(); }
  double read_time(uint index, uint ranges, ha_rows rows) noexcept final {
    return index == table_share->primary_key ? range_pages(ranges, rows) : lookup_pages(ranges, rows);
  }
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                      uint range_count, uint *buffer_bytes, uint *mode,
                                      Cost_estimate *cost) final {
    return ranges_info_const(index, ranges, ranges_context, range_count, buffer_bytes, mode,
                             {cost, HA_POS_ERROR});
  }
#else
  ulonglong row_blocks() noexcept final;
  IO_AND_CPU_COST scan_time() noexcept final;
  IO_AND_CPU_COST keyread_time(uint index, ulong ranges, ha_rows rows, ulonglong blocks) noexcept final;
  IO_AND_CPU_COST rnd_pos_time(ha_rows rows) noexcept final;
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                      uint range_count, uint *buffer_bytes, uint *mode, ha_rows rows_wanted,
                                      Cost_estimate *cost) final {
    return ranges_info_const(index, ranges, ranges_context, range_count, buffer_bytes, mode,
                             {cost, rows_wanted});
  }
#endif
};

// Fills the callbacks of the handlerton that exist in one series only.
void fill_series_callbacks(handlerton *hton);

}  // namespace atoll::handler
