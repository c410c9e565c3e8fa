// SQL functions ATOLL_CLONE_TABLE('table', 'new table') and ATOLL_CLONE_DATABASE('schema', 'other schema')
// (action_function.h): tables of their own with the rows of others, without copying them
// (table/clone/table_clone.h).
//
// The new tables are locked as by CREATE TABLE. Writers of the sources wait, and the statement waits for
// those that have begun, up to lock_wait_timeout: so all clones of one statement show one moment. The binary
// log gets nothing.
#pragma once

class Create_func;

namespace atoll::plugin {

Create_func *clone_table_function();
Create_func *clone_database_function();

}  // namespace atoll::plugin
