// Includes the server's headers in the one way that all of handler/ and plugin/ use.
//
// MYSQL_SERVER selects the private interface; it must be set before the first server header.
#pragma once

#ifndef MYSQL_SERVER
#define MYSQL_SERVER 1
#endif

#include <my_global.h>

#include <sql_class.h>
#include <handler.h>
#include <key.h>
#include <mysql/service_kill_statement.h>
#include <sql_table.h>
#include <table.h>

// The server defines these as macros; they break the standard library and RocksDB.
#undef min
#undef max
#undef test

namespace atoll {

// Whether the statement of `thd` must end because of KILL or max_statement_time. The server counts
// max_statement_time as a soft kill, which its thd_killed() does not report.
inline bool is_statement_killed(const THD *thd) { return thd_kill_level(thd) != THD_IS_NOT_KILLED; }

}  // namespace atoll
