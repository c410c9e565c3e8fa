// Goal:   entries_of() lists a directory, and without memory it throws in place of ending the process.
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

}  // namespace
}  // namespace atoll
