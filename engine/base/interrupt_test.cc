// Tests that a thread makes way for killed statements only while it has a MakeWayScope, and that the end of a
// PatienceScope's patience ends waits.
#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <thread>

namespace atoll {
namespace {

TEST(Interrupt, AThreadInTheWayMakesWayForAKilledStatement) {
  {
    const MakeWayScope scope;
    EXPECT_FALSE(must_make_way());
    note_kill();
    EXPECT_TRUE(must_make_way());
    EXPECT_FALSE(is_interrupted());
    bool elsewhere = true;
    std::thread([&] { elsewhere = must_make_way(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(must_make_way());
}

TEST(Interrupt, AThreadInTheWayMakesWayForAShutdown) {
  set_statement_check(nullptr, [] { return true; });
  EXPECT_FALSE(must_make_way());
  {
    const MakeWayScope scope;
    EXPECT_TRUE(must_make_way());
  }
  set_statement_check(nullptr, nullptr);
}

TEST(Interrupt, WaitsEndWhenThePatienceIsOver) {
  bool is_over = false;
  std::atomic<bool> stop{false};
  const InterruptScope helper(&stop);
  {
    const PatienceScope scope([&] { return is_over; });
    EXPECT_FALSE(is_interrupted());
    is_over = true;
    EXPECT_TRUE(is_interrupted());
    is_over = false;
    stop = true;
    EXPECT_TRUE(is_interrupted());
    stop = false;
    is_over = true;
  }
  EXPECT_FALSE(is_interrupted());
}

}  // namespace
}  // namespace atoll
