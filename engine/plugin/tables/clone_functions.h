// SQL functions ATOLL_CLONE_TABLE('table', 'new table') and ATOLL_CLONE_DATABASE('schema', 'other schema')
// (action_function.h). They make new tables with the rows of other tables, without copying the rows
// (table/clone/table_clone.h).
//
// The statement locks the new tables as CREATE TABLE does. Writers of the source tables wait for the
// statement, and the statement waits for writers that have begun before, for at most lock_wait_timeout. So
// all clones of one statement show the same moment. Nothing is written to the binary log.
#pragma once

class Create_func;

namespace atoll::plugin {

Create_func *clone_table_function();
Create_func *clone_database_function();

}  // namespace atoll::plugin
