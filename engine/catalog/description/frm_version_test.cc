// Tests which server a .frm image says has written it.
#include "catalog/description/frm_version.h"

#include <gtest/gtest.h>

#include <string>

namespace atoll::catalog {
namespace {

TEST(FrmVersion, is_read_from_the_header) {
  std::string frm(64, '\0');
  frm[51] = static_cast<char>(0xd6);  // 110806 = 0x1b0d6
  frm[52] = static_cast<char>(0xb0);
  frm[53] = 1;
  EXPECT_EQ(server_version_in(frm), 110806u);
  EXPECT_EQ(server_version_in(frm + "more"), 110806u);
}

TEST(FrmVersion, is_unknown_without_a_header) {
  EXPECT_EQ(server_version_in(""), 0u);
  EXPECT_EQ(server_version_in(std::string(63, '\1')), 0u);
}

}  // namespace
}  // namespace atoll::catalog
