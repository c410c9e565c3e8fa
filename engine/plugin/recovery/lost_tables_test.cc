// Goal:   the first start with a copied data directory says which tables have no rows, and how to get the
//         rows.
// Method: directories with .frm and .par files, and a catalog that knows some of them.
#include "plugin/recovery/lost_tables.h"

#include <gtest/gtest.h>

#include <fstream>

#include "catalog/test_database.h"
#include "plugin/recovery/test_partition_list.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kAtoll = 45;
const std::string kOwn("frm with \5\0ATOLL", 16);

class LostTablesTest : public testing::Test {
 protected:
  LostTablesTest() {
    char name[] = "/tmp/atoll_lost_tables_XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "data" / "d");
    database_ = std::make_unique<catalog::TestDatabase>((root_ / "db").string());
    EXPECT_TRUE(catalog::Catalog::open(database_.get(), database_.get(), &catalog_).ok());
  }
  ~LostTablesTest() override {
    catalog_.reset();
    database_.reset();
    fs::remove_all(root_);
  }
  void write(const std::string &file, const std::string &content) {
    std::ofstream(root_ / "data" / file, std::ios::binary) << content;
  }
  LostTables find() { return find_lost_tables(*catalog_, root_ / "data", kAtoll); }

  fs::path root_;
  std::unique_ptr<catalog::TestDatabase> database_;
  std::unique_ptr<catalog::Catalog> catalog_;
};

TEST_F(LostTablesTest, counts_own_definitions_that_the_catalog_lacks) {
  catalog::TableDef known;
  known.database = "d";
  known.name = "known";
  ASSERT_TRUE(catalog_->create(&known, false).ok());
  write("d/known.frm", kOwn);
  write("d/other.frm", "frm of another engine");
  write("d/#sql-alter-1.frm", kOwn);
  EXPECT_EQ(find().count, 0u);
  write("d/lost.frm", kOwn);
  EXPECT_EQ(find().count, 1u);
  EXPECT_EQ(find().example, "d/lost");
  write("d/parted.frm", "no engine");
  write("d/parted.par", partition_list(kAtoll, 1));
  EXPECT_EQ(find().count, 2u);
}

TEST_F(LostTablesTest, reads_the_position_of_the_backup) {
  EXPECT_EQ(gtid_of_backup(root_ / "data"), "");
  write("xtrabackup_info",
        "uuid = 1\nbinlog_pos = filename 'bin.000001', position '1118', GTID of the last change "
        "'0-1-5,1-1-7'\n");
  EXPECT_EQ(gtid_of_backup(root_ / "data"), "0-1-5,1-1-7");
  write("xtrabackup_info", "binlog_pos = filename 'bin.000001', position '1118'\n");
  EXPECT_EQ(gtid_of_backup(root_ / "data"), "");
}

TEST(LostTablesMessage, says_what_is_missing_and_what_to_do) {
  const LostTables none, some{3, "d/t"};
  EXPECT_EQ(lost_tables_message(none, "", "file:///b", false), "");
  EXPECT_EQ(lost_tables_message(none, "0-1-5", "file:///b", false), "");
  EXPECT_EQ(lost_tables_message(none, "", "file:///b", true), "");
  const std::string lost = lost_tables_message(some, "0-1-5", "file:///b", false);
  for (const char *part :
       {"3 ATOLL tables, d/t", "GTID position 0-1-5", "file:///b", "restore URL --gtid 0-1-5 --to NEWURL"})
    EXPECT_NE(lost.find(part), std::string::npos) << part;
  EXPECT_NE(lost_tables_message(some, "", "file:///b", false).find("--at MOMENT"), std::string::npos);
  EXPECT_NE(lost_tables_message(none, "0-1-5", "s3://b", true).find("as s3://b has them"), std::string::npos);
}

}  // namespace
}  // namespace atoll::plugin
