// Carries an exception past the Rust part: from a C++ callback to the C++ code that has called Rust. An
// exception must not unwind through Rust frames, and the functions that Rust calls back return no result that
// could report one. So a Callback keeps the exception until the call into Rust that led to it has returned;
// then rethrow() throws it.
#pragma once

#include <exception>
#include <utility>

#include "base/namespace.h"

namespace atoll::bridge {

// Wraps a function `call` that Rust calls back. For example:
//
//   Callback each([&](uint64_t number, uint64_t bytes) { ... });
//   atoll_store_list_files(store, &each, each.function<uint64_t, uint64_t>());
//   each.rethrow();
//
// After `call` has thrown, the Callback does not call it again. The Callback holds its own copy of `call`.
template <typename Call>
class Callback {
 public:
  explicit Callback(Call call) : call_(std::move(call)) {}

  // Returns the function to pass to Rust. Rust must pass the Callback to that function as `context`.
  template <typename... Arguments>
  static auto function() -> void (*)(void *context, Arguments... arguments) {
    return [](void *context, Arguments... arguments) {
      static_cast<Callback *>(context)->try_call(arguments...);
    };
  }

  // Throws the exception that `call` has thrown. Does nothing if `call` has not thrown.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  template <typename... Arguments>
  void try_call(Arguments... arguments) noexcept {
    if (thrown_) return;
    try {
      call_(arguments...);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }

  Call call_;
  std::exception_ptr thrown_;
};

}  // namespace atoll::bridge
