// What the engine asks about, and tells, the statement of the calling thread. A thread without a statement is
// neither killed nor out of time.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll::plugin {

// Whether the statement was killed, for waits inside the engine that do not know their statement.
bool is_killed();

// Adds a warning to the statement.
void warn_statement(const std::string &message);

// Whether the statement has run for max_statement_time. A replica's thread has no such limit.
bool is_out_of_time();

// Shows in SHOW PROCESSLIST that the statement waits for the bucket, or does not wait any more.
void show_wait(bool waits);

}  // namespace atoll::plugin
