// The border for functions that the server calls by a pointer: callbacks of the handlerton, of system and
// status variables, and of views. The pointer is guarded_function<function, reaction>. The reactions, which
// say what happens to an exception, are in this file. `make check` finds a callback of the handlerton that
// has no such guard.
//
// No function in this file throws. Reactions named `fails...` are for work that a statement asked for; those
// named `is_logged...` are for work whose result nobody waits for.
#pragma once

#include "base/border/border.h"

namespace atoll::handler {

// Makes the server roll back the statement's transaction, all of it and regardless of savepoints: what the
// exception has interrupted may be half done in the transaction's memory.
void give_up_transaction() noexcept;

// Gives the transaction up and returns the HA_ERR_* of `status`.
int fails_by_code(const Status &status) noexcept;

// Makes `status` the error of the statement, for functions whose result cannot tell the server a code.
void fails(const Status &status) noexcept;

// As fails(), and returns kResult, which the server takes for "failed, see the error".
template <auto kResult>
auto fails_by(const Status &status) noexcept {
  fails(status);
  return kResult;
}

// Writes `status` to the server's error log.
void is_logged(const Status &status) noexcept;

// As is_logged(), and returns kResult.
template <auto kResult>
auto is_logged_by(const Status &status) noexcept {
  is_logged(status);
  return kResult;
}

}  // namespace atoll::handler
