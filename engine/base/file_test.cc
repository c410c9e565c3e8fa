// Goal:   directories are listed and removed, and a shortage of memory does not end the process.
// Method: each allocation of a call fails in turn.
#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/failing_new.h"

namespace atoll {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_ / "below"); }
  void TearDown() override { fs::remove_all(directory_); }

  const fs::path directory_ = fs::temp_directory_path() / ("atoll-file-" + std::to_string(getpid()));
};

TEST_F(FileTest, all_entries_are_listed) {
  ASSERT_TRUE(write_content(directory_ / "a file with a name that needs memory", "x"));
  std::error_code error;
  std::vector<fs::path> entries = entries_of(directory_, &error);
  EXPECT_FALSE(error);
  std::sort(entries.begin(), entries.end());
  EXPECT_EQ(entries, (std::vector<fs::path>{directory_ / "a file with a name that needs memory",
                                            directory_ / "below"}));
  EXPECT_TRUE(entries_of(directory_ / "below").empty());
}

TEST_F(FileTest, a_directory_that_is_not_there_has_no_entries_and_an_error) {
  std::error_code error;
  EXPECT_TRUE(entries_of(directory_ / "none", &error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
}

TEST_F(FileTest, a_shortage_of_memory_is_an_exception) {
  for (int file = 0; file < 5; file++)
    ASSERT_TRUE(
        write_content(directory_ / ("a file with a name that needs memory " + std::to_string(file)), ""));
  int failures = 0;
  for (bool has_failed = true; has_failed; failures += has_failed) {
    has_failed = false;
    failing_new::request = failures + 1;
    try {
      EXPECT_EQ(entries_of(directory_).size(), 6u);
    } catch (const std::bad_alloc &) {
      has_failed = true;
    }
    failing_new::request = 0;
  }
  EXPECT_GT(failures, 6) << "at least one for each entry";
}

TEST_F(FileTest, a_tree_is_removed_without_its_links_targets_and_without_operator_new) {
  const fs::path tree = directory_ / "below" / "tree", outside = directory_ / "outside";
  fs::create_directories(tree / "one with a name that needs memory" / "two");
  fs::create_directories(outside);
  ASSERT_TRUE(write_content(outside / "kept", "x"));
  ASSERT_TRUE(write_content(tree / "one with a name that needs memory" / "two" / "file", "x"));
  fs::create_directory_symlink(outside, tree / "link");
  failing_new::request = 1;
  const std::error_code error = remove_tree(tree);
  failing_new::request = 0;
  EXPECT_FALSE(error) << error.message();
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_TRUE(fs::exists(outside / "kept"));
}

TEST_F(FileTest, what_does_not_exist_is_removed_and_what_cannot_be_removed_is_an_error) {
  EXPECT_FALSE(remove_tree(directory_ / "none"));
  EXPECT_EQ(remove_tree("/proc/self/comm"), std::errc::operation_not_permitted);
}

}  // namespace
}  // namespace atoll
