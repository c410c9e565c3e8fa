// Tests that db.opt and trigger files are kept in the catalog and put back into an empty data directory.
#include "plugin/recovery/side_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "catalog/test_database.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

constexpr char kOptions[] = "default-character-set=utf8mb4\ndefault-collation=utf8mb4_bin\n";
constexpr char kTrigger[] = "TYPE=TRIGGERS\ntriggers='CREATE TRIGGER r BEFORE INSERT ON t ...'\n";
constexpr char kTriggerName[] = "TYPE=TRIGGERNAME\ntrigger_table=t\n";

class SideFilesTest : public testing::Test {
 protected:
  SideFilesTest() {
    char name[] = "/tmp/atoll_side_files_XXXXXX";
    root_ = ::mkdtemp(name);
    data_dir_ = root_ + "/data";
    fs::create_directory(data_dir_);
    database_ = std::make_unique<catalog::TestDatabase>(root_ + "/db");
    EXPECT_TRUE(catalog::Catalog::open(database_.get(), database_.get(), &catalog_).ok());
    forget();
  }
  ~SideFilesTest() override {
    side_files_.reset();
    catalog_.reset();
    database_.reset();
    fs::remove_all(root_);
  }

  // Acts as a restart: the new object remembers nothing of earlier sweeps.
  void forget() { side_files_ = std::make_unique<SideFiles>(catalog_.get(), data_dir_, FileModes{}); }
  void sweep() { ASSERT_TRUE(side_files_->sweep().ok()); }

  void make_table(const std::string &database, const std::string &name, const std::string &frm = {}) {
    catalog::TableDef table;
    table.database = database;
    table.name = name;
    table.frm = frm;
    ASSERT_TRUE(catalog_->create(&table, false).ok());
  }
  void write(const std::string &file, const std::string &content) {
    fs::create_directories(fs::path(data_dir_ + "/" + file).parent_path());
    std::ofstream(data_dir_ + "/" + file, std::ios::binary) << content;
  }
  std::string read(const std::string &file) {
    std::ifstream in(data_dir_ + "/" + file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  bool exists(const std::string &file) { return fs::exists(data_dir_ + "/" + file); }
  // Sets the times of the directory and its files back, so that a sweep trusts them to show the next change.
  void age(const std::string &database) {
    const auto past = fs::file_time_type::clock::now() - std::chrono::minutes(1);
    for (const auto &entry : fs::directory_iterator(data_dir_ + "/" + database))
      fs::last_write_time(entry, past);
    fs::last_write_time(data_dir_ + "/" + database, past);
  }
  void fill_database() {
    make_table("d", "t");
    write("d/db.opt", kOptions);
    write("d/t.TRG", kTrigger);
    write("d/r.TRN", kTriggerName);
  }

  std::string root_, data_dir_;
  std::unique_ptr<catalog::TestDatabase> database_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<SideFiles> side_files_;
};

TEST_F(SideFilesTest, a_new_directory_gets_the_definitions_of_sequences_only) {
  std::string frm(64, '\1');
  make_table("d", "t", frm);
  frm[39] = '\x21';  // bits 4 and 5 of this byte say that the table is a sequence
  make_table("d", "s", frm);
  std::vector<std::string> restored;
  ASSERT_TRUE(side_files_->restore(true, &restored).ok());
  EXPECT_EQ(read("d/s.frm"), frm);
  EXPECT_FALSE(exists("d/t.frm"));

  // A directory that exists gets no .frm, because the server's own recovery may be about to rename the .frm
  // of another table to this name.
  fs::remove(data_dir_ + "/d/s.frm");
  ASSERT_TRUE(side_files_->restore(true, &restored).ok());
  EXPECT_FALSE(exists("d/s.frm"));
}

TEST_F(SideFilesTest, an_empty_data_directory_gets_databases_and_triggers_back) {
  fill_database();
  sweep();
  fs::remove_all(data_dir_ + "/d");
  forget();
  std::vector<std::string> restored;
  ASSERT_TRUE(side_files_->restore(true, &restored).ok());
  EXPECT_EQ(restored, std::vector<std::string>{"d"});
  EXPECT_EQ(read("d/db.opt"), kOptions);
  EXPECT_EQ(read("d/t.TRG"), kTrigger);
  EXPECT_EQ(read("d/r.TRN"), kTriggerName);
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 2u);
}

TEST_F(SideFilesTest, what_is_there_is_never_overwritten) {
  fill_database();
  sweep();
  write("d/db.opt", "own");
  write("d/t.TRG", "newer");
  fs::remove(data_dir_ + "/d/r.TRN");
  std::vector<std::string> restored;
  forget();
  ASSERT_TRUE(side_files_->restore(false, &restored).ok());
  EXPECT_TRUE(restored.empty());
  EXPECT_FALSE(exists("d/r.TRN")) << "dropped while the engine was not loaded, and not restored";
  ASSERT_TRUE(side_files_->restore(true, &restored).ok());
  EXPECT_TRUE(exists("d/r.TRN"));
  EXPECT_EQ(read("d/db.opt"), "own");
  EXPECT_EQ(read("d/t.TRG"), "newer");
}

TEST_F(SideFilesTest, changed_and_removed_files_are_followed) {
  fill_database();
  age("d");
  sweep();
  write("d/db.opt", "changed");
  sweep();
  EXPECT_EQ(catalog_->databases()[0].options, "changed");
  age("d");
  sweep();
  fs::remove(data_dir_ + "/d/t.TRG");
  fs::remove(data_dir_ + "/d/r.TRN");
  sweep();
  EXPECT_TRUE(catalog_->side_files().empty());
}

TEST_F(SideFilesTest, triggers_of_other_engines_tables_are_not_kept) {
  fill_database();
  write("d/u.TRG", kTrigger);
  write("d/s.TRN", "TYPE=TRIGGERNAME\ntrigger_table=u\n");
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 2u);
}

TEST_F(SideFilesTest, a_table_that_becomes_ours_brings_its_triggers) {
  fill_database();
  write("d/u.TRG", kTrigger);
  age("d");
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 2u);
  make_table("d", "u");
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 3u);
}

TEST_F(SideFilesTest, partitions_count_as_their_table) {
  make_table("d", "t#P#p0");
  write("d/t.TRG", kTrigger);
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 1u);
}

TEST_F(SideFilesTest, a_dropped_database_is_forgotten_but_one_with_tables_never) {
  fill_database();
  sweep();
  fs::remove_all(data_dir_ + "/d");
  sweep();
  EXPECT_EQ(catalog_->databases().size(), 1u);
  ASSERT_TRUE(catalog_->drop("d", "t").ok());
  sweep();
  EXPECT_TRUE(catalog_->databases().empty());
  EXPECT_TRUE(catalog_->side_files().empty());
}

TEST_F(SideFilesTest, a_database_to_be_kept_needs_no_tables) {
  write("n/db.opt", kOptions);
  sweep();
  EXPECT_TRUE(catalog_->databases().empty());
  ASSERT_TRUE(catalog_->keep_database("n").ok());
  sweep();
  EXPECT_EQ(catalog_->databases()[0].options, kOptions);
}

TEST_F(SideFilesTest, an_unchanged_directory_is_not_written_again) {
  fill_database();
  age("d");
  sweep();
  const auto sequence = database_->raw()->GetLatestSequenceNumber();
  sweep();
  EXPECT_EQ(database_->raw()->GetLatestSequenceNumber(), sequence);
}

TEST_F(SideFilesTest, a_database_that_cannot_be_made_again_keeps_its_copies) {
  fill_database();
  make_table("e", "t");
  sweep();
  fs::remove_all(data_dir_ + "/d");
  // A directory with the name of the temporary file makes the write of the trigger file fail.
  fs::create_directories(data_dir_ + "/d/t.TRG~");
  std::vector<std::string> restored;
  forget();
  EXPECT_FALSE(side_files_->restore(true, &restored).ok());
  sweep();
  EXPECT_EQ(catalog_->side_files().size(), 2u);
  EXPECT_TRUE(exists("e")) << "the others are restored all the same";
}

TEST(TriggerTable, is_read_from_a_trn_file) {
  EXPECT_EQ(trigger_table("TYPE=TRIGGERNAME\ntrigger_table=t1\n"), "t1");
  EXPECT_EQ(trigger_table("trigger_table=t1"), "t1");
  EXPECT_EQ(trigger_table("TYPE=TRIGGERNAME\nxtrigger_table=t1\n"), "");
  EXPECT_EQ(trigger_table(""), "");
}

}  // namespace
}  // namespace atoll::plugin
