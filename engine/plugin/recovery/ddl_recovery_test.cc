// Tests the repair of catalog and files after a crash in DDL, from each state that the server's own recovery
// can leave.
#include "plugin/recovery/ddl_recovery.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "catalog/test_database.h"
#include "plugin/recovery/test_partition_list.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kAtoll = 45, kInnoDB = 12;

class DdlRecoveryTest : public testing::Test {
 protected:
  DdlRecoveryTest() {
    char name[] = "/tmp/atoll_ddl_recovery_XXXXXX";
    root_ = ::mkdtemp(name);
    directory_ = {root_ / "data", kAtoll, false, {}};
    fs::create_directories(directory_.path / "d");
    database_ = std::make_unique<catalog::TestDatabase>((root_ / "db").string());
    EXPECT_TRUE(catalog::Catalog::open(database_.get(), database_.get(), &catalog_).ok());
  }
  ~DdlRecoveryTest() override {
    catalog_.reset();
    database_.reset();
    fs::remove_all(root_);
  }

  void make(const std::string &name, const std::string &frm = "") {
    catalog::TableDef table;
    table.database = "d";
    table.name = name;
    table.frm = frm;
    ASSERT_TRUE(catalog_->create(&table, false).ok());
  }
  void make_entry(const std::string &name, const std::string &frm, const std::string &par) {
    catalog::TableDef table;
    table.database = "d";
    table.name = name;
    table.frm = frm;
    table.par = par;
    table.logical_only = true;
    ASSERT_TRUE(catalog_->create(&table, false).ok());
  }
  void make_partitioned(const std::string &name, const std::string &frm) {
    make_entry(name, frm, partition_list(kAtoll, 2));
    for (const char *partition : {"#P#p0", "#P#p1"}) make(name + partition);
  }
  void rename(const std::string &from, const std::string &to) {
    ASSERT_TRUE(catalog_->rename_partitioned("d", from, "d", to).ok());
  }
  void write(const std::string &file, const std::string &content) {
    std::ofstream(directory_.path / "d" / file, std::ios::binary) << content;
  }
  bool exists(const std::string &file) { return fs::exists(directory_.path / "d" / file); }
  void finish() { ASSERT_TRUE(finish_ddl_recovery(catalog_.get(), directory_).ok()); }
  std::vector<std::string> tables() {
    std::vector<std::string> names;
    for (const catalog::TablePtr &table : catalog_->list("")) names.push_back(table->name);
    return names;
  }
  catalog::TablePtr find(const std::string &name) { return catalog_->find("d", name); }

  fs::path root_;
  DataDirectory directory_;
  std::unique_ptr<catalog::TestDatabase> database_;
  std::unique_ptr<catalog::Catalog> catalog_;
};

using Names = std::vector<std::string>;

TEST_F(DdlRecoveryTest, an_entry_that_partitions_lack_is_made_from_the_files) {
  make("t#P#p0");
  write("t.frm", "frm");
  write("t.par", partition_list(kAtoll, 1));
  finish();
  ASSERT_NE(find("t"), nullptr);
  EXPECT_TRUE(find("t")->logical_only);
  EXPECT_EQ(find("t")->frm, "frm");
  EXPECT_EQ(find("t")->par, partition_list(kAtoll, 1));
}

TEST_F(DdlRecoveryTest, an_entry_that_is_empty_or_lists_other_partitions_follows_the_files) {
  make_entry("t", "before", partition_list(kAtoll, 1));
  make_entry("u", "", partition_list(kAtoll, 2));
  for (const std::string name : {"t", "u"}) {
    make(name + "#P#p0");
    make(name + "#P#p1");
    write(name + ".frm", "after");
    write(name + ".par", partition_list(kAtoll, 2));
  }
  finish();
  for (const char *name : {"t", "u"}) {
    EXPECT_EQ(find(name)->frm, "after");
    EXPECT_EQ(find(name)->par, partition_list(kAtoll, 2));
  }
}

TEST_F(DdlRecoveryTest, an_entry_that_agrees_with_its_partitions_is_right_whatever_the_files_say) {
  make_partitioned("t", "newer");
  write("t.frm", "from before another server had the bucket");
  for (const size_t partitions : {2, 3}) {
    write("t.par", partition_list(kAtoll, partitions));
    finish();
    EXPECT_EQ(find("t")->frm, "newer");
  }
}

TEST_F(DdlRecoveryTest, files_of_another_engine_or_cut_off_say_nothing) {
  make("t#P#p0");
  make("t#P#p1");
  write("t.frm", "after");
  for (const std::string &par : {std::string(), partition_list(kInnoDB, 2), std::string("\3\0\0\0sum.\2", 9),
                                 partition_list(kAtoll, 2).substr(0, 18)}) {
    write("t.par", par);
    finish();
    EXPECT_EQ(find("t"), nullptr);
  }
}

TEST_F(DdlRecoveryTest, the_new_table_of_an_alter_follows_its_frm) {
  make_partitioned("#sql-alter-1-2", "new");
  write("#sql-alter-1-2.par", partition_list(kAtoll, 2));
  write("t.frm", "new");
  finish();
  EXPECT_EQ(tables(), (Names{"t", "t#P#p0", "t#P#p1"}));
  EXPECT_TRUE(exists("t.par"));
  EXPECT_FALSE(exists("#sql-alter-1-2.par"));
}

TEST_F(DdlRecoveryTest, the_old_table_of_an_alter_is_put_back_kept_or_dropped) {
  const std::string aside = "#sql-backup-1-2";
  const Names back{"t", "t#P#p0", "t#P#p1"};
  const Names kept{"#sqlx-backup-1-2", "#sqlx-backup-1-2#P#p0", "#sqlx-backup-1-2#P#p1"};
  struct Case {
    const char *story;
    std::string frm, par;  // content of t.frm and t.par; empty: no such file
    bool is_older;
    Names expected;
  };
  const Case cases[] = {
      {"nothing has the name", "", "", false, back},
      {"its own .frm is there still", "old", "", false, back},
      {"another engine has it", "of InnoDB", "", false, kept},
      {"another engine has it, whole", "of InnoDB", partition_list(kInnoDB, 2), false, {}},
      {"engines without a fixed number", "of another", partition_list(kAtoll + 1, 2), false, kept},
      {"an old definition of ours, partitioned", "old", partition_list(kAtoll, 3), false, back},
      {"an old definition of ours", std::string("...\5\0ATOLL", 10), "", false, back},
      {"the files are older than the catalog", "of InnoDB", partition_list(kInnoDB, 2), true, kept},
  };
  for (const Case &one : cases) {
    SCOPED_TRACE(one.story);
    make_partitioned("t", "old");
    rename("t", aside);
    for (const auto &[file, content] : {std::pair{"t.frm", one.frm}, {"t.par", one.par}}) {
      fs::remove(directory_.path / "d" / file);
      if (!content.empty()) write(file, content);
    }
    directory_.is_older = one.is_older;
    finish();
    EXPECT_EQ(tables(), one.expected);
    finish();
    EXPECT_EQ(tables(), one.expected) << "at the next start";
    if (tables().empty()) continue;
    ASSERT_TRUE(catalog_->drop_partitioned("d", tables().front()).ok());
  }
}

TEST_F(DdlRecoveryTest, a_kept_table_stays_when_its_name_is_used_again) {
  make("t", "old");
  rename("t", "#sql-backup-1-2");
  write("t.frm", "of InnoDB");
  finish();
  make("t", "new");
  finish();
  EXPECT_EQ(tables(), (Names{"#sqlx-backup-1-2", "t"}));
}

TEST_F(DdlRecoveryTest, copies_beside_a_table_that_is_there_go) {
  make_partitioned("t", "new");
  make_partitioned("#sql-alter-1-2", "copy");
  make_partitioned("u", "u");
  rename("u", "#sql-backup-1-3");
  make("u", "u");
  make("#sql-alter-1-4", "copy");
  finish();
  EXPECT_EQ(tables(), (Names{"t", "t#P#p0", "t#P#p1", "u"}));
}

TEST_F(DdlRecoveryTest, an_entry_that_never_got_partitions_goes_with_its_files) {
  make_entry("t", "", partition_list(kAtoll, 2));
  write("t.frm", "");
  write("t.par", partition_list(kAtoll, 2));
  make_entry("u", "frm", partition_list(kAtoll, 2));
  write("u.frm", "frm");  // the server has a definition, so the entry stays
  finish();
  EXPECT_EQ(tables(), Names{"u"});
  EXPECT_FALSE(exists("t.frm"));
  EXPECT_FALSE(exists("t.par"));
}

TEST_F(DdlRecoveryTest, stray_lists_of_partitions_go_but_not_those_of_others) {
  make("t", "frm");
  write("#sql-alter-1-2.par", partition_list(kAtoll, 2));
  write("#sql-alter-1-3.par", partition_list(kInnoDB, 2));
  write("#sql-alter-1-4.par", partition_list(kAtoll, 2));
  write("#sql-alter-1-4.frm", "still there");
  write("v.par", partition_list(kAtoll, 2));
  finish();
  EXPECT_FALSE(exists("#sql-alter-1-2.par"));
  for (const char *file : {"#sql-alter-1-3.par", "#sql-alter-1-4.par", "v.par"}) EXPECT_TRUE(exists(file));
}

TEST_F(DdlRecoveryTest, the_definition_of_a_table_that_an_alter_has_moved_follows_it) {
  const std::string own("frm with \5\0ATOLL", 16);
  make("moved", own);
  write("t.frm", own);
  write("other.frm", std::string("another frm with \5\0ATOLL", 24));
  finish();
  EXPECT_TRUE(exists("moved.frm") && exists("other.frm"));
  EXPECT_FALSE(exists("t.frm"));
  write("t.frm", own);
  finish();
  EXPECT_TRUE(exists("t.frm")) << "the table has its definition";
}

TEST_F(DdlRecoveryTest, definitions_that_contradict_a_catalog_from_the_bucket_are_set_aside) {
  const std::string own("frm with \5\0ATOLL", 16), older("older frm with \5\0ATOLL", 22);
  make("same", own);
  make("altered", older);
  write("same.frm", own);
  write("altered.frm", own);
  write("late.frm", own);
  write("parted.frm", "no engine");
  write("parted.par", partition_list(kAtoll, 1));
  write("other.frm", "frm of another engine");
  finish();
  EXPECT_TRUE(exists("late.frm")) << "the catalog is this server's own";
  directory_.contradicted = root_ / "contradicted";
  finish();
  EXPECT_TRUE(exists("same.frm") && exists("other.frm"));
  for (const char *file : {"altered.frm", "late.frm", "parted.frm", "parted.par"}) {
    EXPECT_FALSE(exists(file)) << file;
    EXPECT_TRUE(fs::exists(root_ / "contradicted" / "d" / file)) << file;
  }
  EXPECT_EQ(tables(), (Names{"altered", "same"}));
}

TEST_F(DdlRecoveryTest, half_written_definitions_go_and_lists_come_back_before_recovery) {
  make("t", "the whole definition");
  write("t.frm", "the whole");
  make_partitioned("u", "u");
  write("u.frm", "u");
  make_partitioned("v", "");  // without a definition, its .par is not written
  prepare_ddl_recovery(catalog_.get(), directory_.path);
  EXPECT_FALSE(exists("t.frm"));
  EXPECT_EQ(content_of(directory_.path / "d" / "u.par"), partition_list(kAtoll, 2));
  EXPECT_FALSE(exists("v.par"));
}

// What the server's recovery has dropped is gone if its DDL log belongs to the catalog, and there otherwise.
TEST_F(DdlRecoveryTest, a_drop_of_the_recovery_holds_only_with_its_log) {
  for (const bool is_older : {false, true}) {
    make("t");
    make_partitioned("p", "frm");
    catalog_->holds_drops = true;
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
    ASSERT_TRUE(catalog_->drop("d", "p#P#p0").ok());
    catalog_->holds_drops = false;
    directory_.is_older = is_older;
    finish();
    EXPECT_EQ(find("t") != nullptr, is_older);
    EXPECT_EQ(find("p#P#p0") != nullptr, is_older);
    for (const std::string &name : tables()) ASSERT_TRUE(catalog_->drop("d", name).ok());
  }
}

TEST_F(DdlRecoveryTest, a_dropped_partition_is_not_put_back_into_a_table_without_it) {
  make_entry("p", "frm", partition_list(kAtoll, 1));
  for (const char *partition : {"p#P#p0", "p#P#p1"}) make(partition);
  catalog_->holds_drops = true;
  ASSERT_TRUE(catalog_->drop("d", "p#P#p1").ok());
  catalog_->holds_drops = false;
  directory_.is_older = true;
  finish();
  EXPECT_EQ(tables(), (Names{"p", "p#P#p0"}));
}

TEST_F(DdlRecoveryTest, a_restore_is_marked_until_its_recovery_has_ended) {
  EXPECT_FALSE(has_restore_mark(root_));
  set_restore_mark(root_);
  EXPECT_TRUE(has_restore_mark(root_));
  clear_restore_mark(root_);
  EXPECT_FALSE(has_restore_mark(root_));
}

// A data directory from before the hand-over still has the files of the table.
TEST_F(DdlRecoveryTest, a_table_that_changes_databases_is_no_alter_cut_off) {
  const std::string own("frm with \5\0ATOLL", 16);
  make("#sqlh-1", own);
  make_partitioned("#sqlh-2", "frm");
  write("t.frm", own);
  write("p.frm", "frm");
  finish();
  EXPECT_EQ(tables(), (Names{"#sqlh-1", "#sqlh-2", "#sqlh-2#P#p0", "#sqlh-2#P#p1"}));
  EXPECT_FALSE(exists("#sqlh-1.frm"));
}

}  // namespace
}  // namespace atoll::plugin
