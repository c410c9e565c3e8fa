// Tests of reason_first().
#include "base/messages/reason_first.h"

#include <gtest/gtest.h>

namespace atoll {
namespace {

TEST(ReasonFirstTest, the_reason_comes_before_the_operation_that_failed) {
  EXPECT_EQ(reason_first("opening x: reading y in bucket b failed: HTTP 403 Denied (m). Check the key"),
            "HTTP 403 Denied (m). Check the key (opening x: reading y in bucket b)");
  EXPECT_EQ(reason_first("reading y failed after 5 attempts: no answer"),
            "no answer (reading y, 5 attempts)");
}

TEST(ReasonFirstTest, of_several_failures_the_innermost_is_the_reason) {
  EXPECT_EQ(reason_first("a failed: b failed: c"), "c (a failed: b)");
}

TEST(ReasonFirstTest, a_message_without_a_failed_operation_stays_as_it_is) {
  for (const char *message : {"", "the disk is full", " failed", "x failed", "x failed to do: y",
                              "no answer (reading y, 5 attempts)"})
    EXPECT_EQ(reason_first(message), message);
}

}  // namespace
}  // namespace atoll
