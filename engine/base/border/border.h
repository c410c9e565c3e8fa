// Turns exceptions into a Status where a call comes in from code that expects none: the server, RocksDB, a
// thread's start.
//
// Below such a border the code does not throw by itself. What arrives here comes from the standard library:
// std::bad_alloc (no memory) and std::system_error (no thread, for example at a limit of processes).
// Nothing is done, and nothing is paid, while no exception is thrown.
//
// | caller                                      | the guard                                    |
// |---------------------------------------------|----------------------------------------------|
// | the server, an open table                   | handler/server/guarded_handler.cc                   |
// | the server, by a pointer to a function      | guarded_function, handler/server/callback.h         |
// | RocksDB, a class derived from one of its    | cloudfs/guarded_files.h, or guarded() in it  |
// | Rust, a callback                            | bridge/callback.h                            |
// | a thread's start                            | guarded() in its loop                        |
#pragma once

#include <utility>

#include "base/status.h"

namespace atoll {

// What the exception that is being handled means. kNoMemory: no memory, or no thread. kBug: any other one,
// with its text. Never throws: without memory for the text, a text that was made before is returned.
// Requires: called in a catch clause.
Status status_of_exception() noexcept;

// Returns call(). When that throws, returns on_failure(status), with what status_of_exception() says.
// `on_failure` must not throw.
template <typename Call, typename OnFailure>
inline auto guarded(Call &&call, OnFailure &&on_failure) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    return std::forward<OnFailure>(on_failure)(status_of_exception());
  }
}

// The same for a call that returns a Status: the exception's Status is returned.
template <typename Call>
inline Status guarded(Call &&call) {
  return guarded(std::forward<Call>(call), [](Status status) { return status; });
}

// The same for a call without result whose failure changes nothing that anybody relies on.
template <typename Call>
inline void guarded_or_nothing(Call &&call) {
  guarded([&] { call(); }, [](const Status &) {});
}

template <auto kFunction, auto kFailure>
struct GuardedFunction;

template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...), auto kFailure>
struct GuardedFunction<kFunction, kFailure> {
  static Result call(Arguments... arguments) {
    return guarded([&]() -> Result { return kFunction(arguments...); },
                   [](const Status &status) -> Result { return kFailure(status); });
  }
};

// A function of the same type as kFunction, for a caller that takes a pointer: it calls kFunction, and when
// that throws, returns kFailure(status), which must not throw.
template <auto kFunction, auto kFailure>
inline constexpr auto guarded_function = &GuardedFunction<kFunction, kFailure>::call;

}  // namespace atoll
