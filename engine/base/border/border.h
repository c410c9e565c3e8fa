// Turns exceptions into a Status at borders: where code that expects no exceptions (the server, RocksDB, a
// thread's start) calls this code.
//
// Inside such a border, Atoll's own code does not throw. The exceptions that reach the border come from the
// standard library: std::bad_alloc (no memory) and std::system_error (no thread, for example at a limit of
// processes). A guard costs nothing while no exception is thrown.
//
// | who calls Atoll's code                      | the guard                                    |
// |---------------------------------------------|----------------------------------------------|
// | the server, for an open table               | handler/server/guarded_handler.cc            |
// | the server, by a pointer to a function      | guarded_function, handler/server/callback.h  |
// | RocksDB, by a virtual function of a class   | cloudfs/guarded_files.h, or guarded() in the |
// | that is derived from one of its classes     | function                                     |
// | Rust, through a callback                    | bridge/callback.h                            |
// | the system, when a thread starts            | guarded() in the thread's loop               |
#pragma once

#include <utility>

#include "base/status.h"

namespace atoll {

// Returns the Status for the exception that is being handled: kNoMemory when there was no memory or no
// thread, kBug with the exception's text for any other. Never throws: when there is no memory for the text,
// it returns a Status that was made when the library was loaded. Requires: called in a catch clause.
Status status_of_exception() noexcept;

// Returns call(). If it throws, returns on_failure(status) with the status of the exception
// (status_of_exception()). `on_failure` must not throw.
template <typename Call, typename OnFailure>
inline auto guarded(Call &&call, OnFailure &&on_failure) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    return std::forward<OnFailure>(on_failure)(status_of_exception());
  }
}

// Returns call(), which returns a Status; if it throws, the Status of the exception.
template <typename Call>
inline Status guarded(Call &&call) {
  return guarded(std::forward<Call>(call), [](Status status) { return status; });
}

// Calls call() and drops any exception. Only for calls without a result, whose failure does no harm.
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

// A function of the same type as kFunction, for callers that need a pointer to a function. It calls
// kFunction; if kFunction throws, it returns kFailure(status), which must not throw.
template <auto kFunction, auto kFailure>
inline constexpr auto guarded_function = &GuardedFunction<kFunction, kFailure>::call;

}  // namespace atoll
