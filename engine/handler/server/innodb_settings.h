// Settings that a session has made for InnoDB and that hold for ATOLL tables as well.
#pragma once

#include <optional>

class THD;

namespace atoll::handler {

// Returns the session's innodb_lock_wait_timeout in seconds; nullopt: the server runs without InnoDB,
// or has not started yet.
// Threads: that of the statement. Costs no lock.
std::optional<unsigned long> innodb_lock_wait_timeout_s(THD *thd);

}  // namespace atoll::handler
