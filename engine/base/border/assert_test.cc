// Goal:   a broken condition ends the process, and the message names the condition; a condition that holds is
//         evaluated once and does nothing else.
// Method: each broken condition in a child process (death tests).
#include "base/border/assert.h"

#include <gtest/gtest.h>

namespace atoll {
namespace {

TEST(AssertTest, a_condition_that_holds_is_evaluated_once) {
  int evaluations = 0;
  ATOLL_ASSERT(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(AssertDeathTest, a_broken_condition_ends_the_process_and_is_named) {
  const int taken = 0;
  EXPECT_DEATH(ATOLL_ASSERT(taken > 0), "taken > 0 is not true .*assert_test.cc");
}

TEST(AssertDeathTest, a_dear_condition_is_looked_at_in_paranoid_builds_only) {
  int evaluations = 0;
  ATOLL_ASSERT_DEAR(++evaluations == 1);
#ifdef ATOLL_PARANOID
  EXPECT_EQ(evaluations, 1);
#else
  EXPECT_EQ(evaluations, 0);
#endif
}

}  // namespace
}  // namespace atoll
