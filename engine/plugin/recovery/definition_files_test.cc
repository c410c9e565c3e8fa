// Goal:   a .frm, or the .par file beside it, tells which engine's table it defines. A directory that cannot
//         be read counts as empty.
// Method: contents as the server writes them.
#include "plugin/recovery/definition_files.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "plugin/recovery/test_partition_list.h"

namespace atoll::plugin {
namespace {

constexpr uint8_t kAtoll = 45, kInnoDB = 12;

TEST(DefinitionFiles, tell_the_engine) {
  const std::string own("frm with \5\0ATOLL", 16), comment("ATOLL in a comment");
  EXPECT_TRUE(is_own(own, std::nullopt, kAtoll));
  EXPECT_FALSE(is_own(comment, std::nullopt, kAtoll));
  EXPECT_FALSE(is_own("", std::nullopt, kAtoll));
  const auto list = [](uint8_t engine) { return catalog::parse_partition_list(partition_list(engine, 2)); };
  EXPECT_TRUE(is_own("", list(kAtoll), kAtoll));
  EXPECT_FALSE(is_own(own, list(kInnoDB), kAtoll)) << "the list knows better";
}

TEST(DefinitionFiles, of_a_directory_that_is_not_there_are_none) {
  EXPECT_TRUE(entries_of("/nowhere at all").empty());
  EXPECT_TRUE(directories_in("/nowhere at all").empty());
}

}  // namespace
}  // namespace atoll::plugin
