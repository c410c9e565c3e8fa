// Goal:   a file is written whole, with its mode, and an error leaves the former content.
#include "plugin/recovery/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  const fs::path directory_ = fs::temp_directory_path() / ("atoll-whole-file-" + std::to_string(getpid()));
};

TEST_F(WholeFileTest, a_file_is_created_with_its_mode_and_replaced) {
  const fs::path file = directory_ / "t.TRG";
  ASSERT_TRUE(write_whole_file(file, "first", 0640).ok());
  struct stat found {};
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0137, 0u) << "no right that was not asked for";
  ASSERT_TRUE(write_whole_file(file, "second", 0640).ok());
  EXPECT_EQ(content_of(file), "second");
  EXPECT_EQ(entries_of(directory_).size(), 1u) << "nothing is left beside it";
}

TEST_F(WholeFileTest, an_error_leaves_the_former_content) {
  const fs::path file = directory_ / "kept";
  ASSERT_TRUE(write_whole_file(file, "former", 0640).ok());
  fs::create_directory(directory_ / "kept~");  // in the way of the new content
  EXPECT_EQ(write_whole_file(file, "new", 0640).code(), Code::kInvalid);
  EXPECT_EQ(content_of(file), "former");
}

TEST_F(WholeFileTest, an_error_says_what_to_do) {
  EXPECT_EQ(from_errno(ENOSPC, "x").code(), Code::kNoSpace);
  EXPECT_EQ(from_errno(EACCES, "x").code(), Code::kReadOnly);
  EXPECT_EQ(from_errno(EIO, "x").code(), Code::kInvalid);
}

}  // namespace
}  // namespace atoll::plugin
