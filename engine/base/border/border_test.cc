// Tests guarded(): which exception becomes which Status.
#include "base/border/border.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

namespace atoll {
namespace {

template <typename Exception>
Status status_of(const Exception &exception) {
  return guarded([&]() -> Status { throw exception; });
}

TEST(Border, ReturnsWhatTheCallReturns) {
  const auto never = [](const Status &) { return -1; };
  EXPECT_EQ(guarded([] { return 7; }, never), 7);
  EXPECT_TRUE(guarded([] { return Status::Ok(); }).ok());
}

TEST(Border, NoMemoryHasItsOwnCode) { EXPECT_EQ(status_of(std::bad_alloc()).code(), Code::kNoMemory); }

TEST(Border, NoThreadIsNoMemory) {
  const std::system_error error(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(status_of(error).code(), Code::kNoMemory);
}

TEST(Border, AnotherSystemErrorIsABug) {
  const std::system_error error(std::make_error_code(std::errc::operation_not_permitted));
  EXPECT_EQ(status_of(error).code(), Code::kBug);
}

TEST(Border, OtherExceptionsAreBugsWithTheirText) {
  const Status status = status_of(std::out_of_range("position 9 of 3"));
  EXPECT_EQ(status.code(), Code::kBug);
  EXPECT_NE(std::string(status.message()).find("position 9 of 3"), std::string::npos);
  EXPECT_EQ(status_of(42).code(), Code::kBug);
}

TEST(Border, TheCallerChoosesTheFailuresValue) {
  Code seen = Code::kOk;
  const int result = guarded([]() -> int { throw std::bad_alloc(); },
                             [&](const Status &status) {
                               seen = status.code();
                               return 128;
                             });
  EXPECT_EQ(result, 128);
  EXPECT_EQ(seen, Code::kNoMemory);
}

TEST(Border, ACallWithoutResult) {
  bool failed = false;
  guarded([]() { throw std::bad_alloc(); }, [&](const Status &) { failed = true; });
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace atoll
