// Goal:   a task has turns at regular times and when a thread asks for one, one at a time. Other turns follow
//         a turn that throws. stop() ends waits, and no turn follows it.
// Method: counts turns. The test waits for them without a time limit, so that it passes on a slow machine.
#include "base/threads/repeated_task.h"

#include <gtest/gtest.h>

#include <new>

namespace atoll {
namespace {

using std::chrono::milliseconds;

constexpr auto kLong = std::chrono::hours(1);

// Waits until `count` is at least `least`.
void wait_for(const std::atomic<int> &count, int least) {
  while (count < least) std::this_thread::sleep_for(milliseconds(1));
}

TEST(RepeatedTaskTest, has_turns_in_its_rhythm) {
  std::atomic<int> turns{0};
  RepeatedTask task("test", milliseconds(1), [&] { ++turns; });
  wait_for(turns, 3);
}

TEST(RepeatedTaskTest, has_a_turn_for_each_request_that_comes_after_the_former) {
  std::atomic<int> turns{0};
  RepeatedTask task("test", RepeatedTask::kNoRhythm, [&] { ++turns; });
  for (int i = 1; i <= 3; ++i) {
    task.ask(milliseconds(i));
    wait_for(turns, i);
  }
  task.stop();
  EXPECT_EQ(turns, 3);
}

TEST(RepeatedTaskTest, a_later_request_does_not_put_an_earlier_one_off) {
  std::atomic<int> turns{0};
  RepeatedTask task("test", kLong, [&] { ++turns; });
  task.ask();
  task.ask(kLong);
  wait_for(turns, 1);
}

TEST(RepeatedTaskTest, a_request_during_a_turn_brings_another_one) {
  std::atomic<int> turns{0};
  RepeatedTask *self = nullptr;
  RepeatedTask task("test", RepeatedTask::kNoRhythm, [&] {
    if (++turns < 5) self->ask();
  });
  self = &task;
  task.ask();
  wait_for(turns, 5);
}

TEST(RepeatedTaskTest, a_turn_that_throws_is_followed_by_others) {
  std::atomic<int> turns{0};
  RepeatedTask task("test", milliseconds(1), [&] {
    ++turns;
    throw std::bad_alloc();
  });
  wait_for(turns, 3);
}

TEST(RepeatedTaskTest, stop_ends_a_rest_and_all_turns) {
  std::atomic<int> turns{0}, ended{0};
  RepeatedTask *self = nullptr;
  RepeatedTask task("test", RepeatedTask::kNoRhythm, [&] {
    ++turns;
    EXPECT_FALSE(self->rest(kLong));
    EXPECT_TRUE(*self->stopping());
    ++ended;
  });
  self = &task;
  task.ask();
  wait_for(turns, 1);
  task.stop();
  EXPECT_EQ(ended, 1);
  task.ask();
  task.stop();
  EXPECT_EQ(turns, 1);
}

TEST(RepeatedTaskTest, stop_does_not_wait_for_a_turn_that_is_not_due) {
  RepeatedTask task("test", kLong, [] { ADD_FAILURE() << "a turn that nobody asked for"; });
  task.stop();
}

}  // namespace
}  // namespace atoll
