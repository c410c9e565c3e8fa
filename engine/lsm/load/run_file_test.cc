// Goal:   what a transaction larger than memory adds to the database is exact, also for others that write
//         meanwhile.
// Method: run files are written and taken in over the fake store, whose record of calls shows the order of
//         log and MANIFEST.

#include "lsm/load/run_file.h"

#include <atomic>
#include <thread>

#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

class RunFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(database_.open());
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &family_));
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &other_));
    std::filesystem::create_directories(database_->spill_directory());
  }

  // Writes a file that gives the keys [from, to) `value`; an empty `value` removes them.
  std::string write_file(uint64_t from, uint64_t to, const std::string &value) {
    std::string path = database_->spill_directory() + "/" + std::to_string(++files_) + ".sst";
    RunFileWriter writer(database_->run_file_options(), path);
    for (uint64_t i = from; i < to; ++i) EXPECT_TRUE(writer.add(test_key(i), value, value.empty()).ok());
    EXPECT_TRUE(writer.finish().ok());
    return path;
  }
  Status take_in(const std::vector<std::string> &paths) {
    Ingestion ingestion;
    ATOLL_RETURN_IF_ERROR(
        ingestion.prepare(database_.operator->(), Side::kMain, {{family_->handle(), paths}}, false));
    return database_->commit_ingestion(&ingestion);
  }

  TestDatabase database_{true};
  Family *family_ = nullptr, *other_ = nullptr;
  int files_ = 0;
};

TEST_F(RunFileTest, later_files_hide_earlier_ones_and_what_was_there) {
  for (uint64_t i = 0; i < 100; ++i) ASSERT_ATOLL_OK(database_.put(family_, test_key(i), "old"));
  ASSERT_ATOLL_OK(take_in({write_file(10, 60, "first"), write_file(50, 80, "second"), write_file(0, 5, "")}));
  EXPECT_EQ(database_.get(family_, test_key(2)), "");
  EXPECT_EQ(database_.get(family_, test_key(7)), "old");
  EXPECT_EQ(database_.get(family_, test_key(49)), "first");
  EXPECT_EQ(database_.get(family_, test_key(50)), "second");
  EXPECT_EQ(database_.get(family_, test_key(80)), "old");
  EXPECT_EQ(database_.count(family_), 95);
}

// Gates PUB-G2 and PUB-G8 count log bytes: no bytes may come between the notes, whichever thread writes them.
TEST_F(RunFileTest, nothing_is_logged_between_the_notes_of_an_ingestion) {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> written{0};
  std::thread others([&] {
    while (!done) {
      const SharedLock gate(*database_->commit_gate());
      ASSERT_ATOLL_OK(database_.put(other_, "k", "v"));
      ++written;
    }
  });
  for (uint64_t i = 0; i < 30; ++i) {
    const uint64_t before = written;
    ASSERT_ATOLL_OK(take_in({write_file(i, i + 10, "v"), write_file(i + 5, i + 15, "w")}));
    while (written == before) std::this_thread::yield();
  }
  done = true;
  others.join();
  bool between = false;
  for (const std::string &call : database_.store()->recorded()) {
    if (call == "note_drop") between = true;
    if (call == "note_ddl") between = false;
    if (between) {
      EXPECT_FALSE(call.starts_with("wal_appended")) << call;
    }
  }
}

}  // namespace
}  // namespace atoll::lsm
