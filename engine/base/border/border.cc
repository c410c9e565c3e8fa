// See border.h.
#include "base/border/border.h"

#include <cxxabi.h>

#include <exception>
#include <new>
#include <system_error>

namespace atoll {
namespace {

constexpr const char *kNoMemoryText = "the server process got no memory; the statement can be repeated";

// This Status is made when the library is loaded. Once memory has run out, there may be none left to make it.
const Status kNoMemoryStatus(Code::kNoMemory, kNoMemoryText);

Status describe() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return kNoMemoryStatus;
  } catch (const std::system_error &error) {
    const bool is_shortage = error.code() == std::errc::resource_unavailable_try_again ||
                             error.code() == std::errc::not_enough_memory;
    if (!is_shortage) return Status(Code::kBug, std::string("an unexpected error: ") + error.what());
    return Status(Code::kNoMemory,
                  std::string("the server process got no thread or no memory (") + error.what() +
                      "); raise its limit of tasks (TasksMax, pids.max) or repeat the statement later");
  } catch (const std::exception &error) {
    return Status(Code::kBug, std::string("an unexpected error: ") + error.what());
  } catch (const abi::__forced_unwind &) {
    throw;  // pthread_cancel() ends a thread by this exception; code that catches it must throw it again
  } catch (...) {
    return Status(Code::kBug, "an unexpected error of an unknown kind");
  }
}

}  // namespace

Status status_of_exception() noexcept {
  try {
    return describe();
  } catch (const std::exception &) {
    return kNoMemoryStatus;  // describe() threw, because there was no memory for the text of its Status
  }
}

}  // namespace atoll
