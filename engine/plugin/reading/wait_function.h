// ATOLL_WAIT('0-1-5120', 3): waits until this server shows the transactions up to a GTID position, so that a
// program can read on a reader what it has written on the writer.
#pragma once

class Create_func;

namespace atoll::plugin {

// ATOLL_WAIT(position[, seconds]) returns 0 when the tables have all transactions of the position, for each
// replication domain in it; -1 after the timeout; NULL if the position is NULL. Without a timeout it waits
// until the statement is killed. On the writer, the position is that of its own commits. A transaction that
// has read an older view goes on with that view. No privilege is needed. Never freed.
Create_func *wait_function();

}  // namespace atoll::plugin
