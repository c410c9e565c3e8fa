// Goal:   group_limit_bytes() finds the limit in both versions of control groups, and returns 0 when the
//         files say that there is no limit. cache_within_limit() shrinks and grows a cache as documented.
// Method: trees of files as the kernel shows them, in a directory of the test.
#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace atoll {
namespace {

namespace fs = std::filesystem;

class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("atoll-memory-limit-" + std::to_string(getpid()));
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write(const fs::path &name, const std::string &content) {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name) << content;
  }
  uint64_t limit() const { return group_limit_bytes(directory_ / "membership", directory_ / "tree"); }

  fs::path directory_;
};

TEST_F(MemoryLimitTest, version_2_takes_the_least_limit_of_the_group_and_those_above) {
  write("membership", "0::/system.slice/mariadb.service\n");
  write("tree/system.slice/memory.max", "2147483648\n");
  write("tree/system.slice/mariadb.service/memory.max", "max\n");
  EXPECT_EQ(limit(), 2147483648u);
  write("tree/system.slice/mariadb.service/memory.max", "536870912\n");
  EXPECT_EQ(limit(), 536870912u);
}

TEST_F(MemoryLimitTest, version_2_in_a_container_whose_tree_begins_with_its_group) {
  write("membership", "0::/\n");
  write("tree/memory.max", "268435456\n");
  EXPECT_EQ(limit(), 268435456u);
  write("membership", "0::/docker/0a1b2c\n");  // the name of the group outside the container
  EXPECT_EQ(limit(), 268435456u);
}

TEST_F(MemoryLimitTest, version_1_looks_only_at_the_memory_controller) {
  write("membership", "5:cpu,cpuacct:/tiny\n4:devices,memory:/bounded\n0::/\n");
  write("tree/memory/memory.limit_in_bytes", "9223372036854771712\n");  // version 1 writes this for no limit
  write("tree/memory/bounded/memory.limit_in_bytes", "402653184\n");
  write("tree/memory/tiny/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(limit(), 402653184u);
}

TEST_F(MemoryLimitTest, no_limit_is_0_and_the_machine_has_memory) {
  EXPECT_EQ(limit(), 0u);
  write("membership", "0::/\ngarbage\n");
  write("tree/memory.max", "max\n");
  EXPECT_EQ(limit(), 0u);
  EXPECT_GE(memory_limit_bytes(), 1u << 24);
}

TEST(CacheWithinLimit, a_cache_gives_way_before_the_limit_and_grows_again_behind_it) {
  MemoryUse use{.limit = 1000, .resident = 700, .cache_used = 400, .cache_max = 500, .cache_wanted = 500};
  EXPECT_EQ(cache_within_limit(use), 500u);
  use.resident = 900;
  EXPECT_EQ(cache_within_limit(use), 500u) << "up to nine tenths it stays";
  use.resident = 950;
  EXPECT_EQ(cache_within_limit(use), 250u) << "down to eight tenths, of what it has, not of what it may have";
  use.cache_max = 250;
  EXPECT_EQ(cache_within_limit(use), 250u) << "not again, while what it gave up is still resident";
  use.cache_used = 100;
  EXPECT_EQ(cache_within_limit(use), 0u);
  use.resident = 850;
  EXPECT_EQ(cache_within_limit(use), 250u) << "between the two it stays";
  use.resident = 600;
  EXPECT_EQ(cache_within_limit(use), 300u);
  use.cache_max = 490;
  EXPECT_EQ(cache_within_limit(use), 500u) << "never more than wanted";
  use.cache_wanted = 100;
  EXPECT_EQ(cache_within_limit(use), 100u);
}

}  // namespace
}  // namespace atoll
