// INFORMATION_SCHEMA tables: ATOLL_TABLES, ATOLL_INDEXES, ATOLL_TRX, ATOLL_LOCKS, ATOLL_FILES,
// ATOLL_COMPACTIONS, ATOLL_SNAPSHOTS, ATOLL_READERS.
#pragma once

#include "base/namespace.h"

namespace atoll::plugin {

// Init functions of the views' plugins; `schema_table` is an ST_SCHEMA_TABLE.
int init_tables_view(void *schema_table);
int init_indexes_view(void *schema_table);
int init_transactions_view(void *schema_table);
int init_locks_view(void *schema_table);
int init_files_view(void *schema_table);
int init_compactions_view(void *schema_table);
int init_snapshots_view(void *schema_table);
int init_readers_view(void *schema_table);

}  // namespace atoll::plugin
