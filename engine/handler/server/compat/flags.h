// What the answers of ha_atoll about its abilities have in one series only.
//
// 11.8 asks for the flags of an index once, when the table is opened, so they must not depend on a statement.
// There is no rowid filter there: the server would also use one for reads with locks. And 11.8 wants no
// HA_KEYREAD_ONLY for a clustered primary key (the contract stands at the function pk_is_clustering_key of
// its class handler). 11.8 can log the changes of other connections while it copies a table in an ALTER, and
// repeat them on the copy; this has not been tested with this engine, so it is switched off.
#pragma once

#include "handler/server.h"

namespace atoll::handler {

#if MYSQL_VERSION_ID < 110000
inline constexpr ulonglong kSeriesTableFlags = 0;
inline constexpr ulong kClusteredIndexFlags = HA_CLUSTERED_INDEX | HA_KEYREAD_ONLY;
#else
inline constexpr ulonglong kSeriesTableFlags = HA_NO_ONLINE_ALTER;
inline constexpr ulong kClusteredIndexFlags = HA_CLUSTERED_INDEX;
#endif

// The flag for rowid filters. No filter is for reads with locks: filling the filter reads a range, and all
// rows of that range would be locked.
constexpr ulong rowid_filter_flag(bool locking) {
#if MYSQL_VERSION_ID < 110000
  return locking ? 0 : HA_DO_RANGE_FILTER_PUSHDOWN;
#else
  return 0;
#endif
}

}  // namespace atoll::handler
