// Tests an engine without a server, on a temporary directory with a file:// bucket: the process opens the
// engine, writes, dies and opens the engine again.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/running.h"
#include "engine/waiting.h"

namespace atoll::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char *kRootVariable = "ATOLL_ENGINE_TEST_ROOT";

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    // A death test starts the process again as a child. The child runs the same test up to the statement that
    // ends it. It must use the directory of its parent, so the directory's name is in the environment.
    char name[] = "/tmp/atoll_engine_XXXXXX";
    const char *of_parent = std::getenv(kRootVariable);
    root_ = of_parent != nullptr ? of_parent : ::mkdtemp(name);
    ::setenv(kRootVariable, root_.c_str(), 1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    settings_.lag_wait_timeout_s = 20;
    settings_.block_cache_bytes = 1 << 20;
  }
  ~EngineTest() override {
    fs::remove_all(root_);
    ::unsetenv(kRootVariable);
  }

  // Opens the engine of the server `name`. Each server has its own directory for local files; all servers use
  // the same bucket.
  std::unique_ptr<Engine> open(const std::string &name = "first") {
    std::unique_ptr<Engine> engine;
    const Status status = open(name, /*is_reader=*/false, &engine);
    EXPECT_TRUE(status.ok()) << status.message();
    return engine;
  }

  Status open(const std::string &name, bool is_reader, std::unique_ptr<Engine> *out) {
    StartSettings start;
    start.is_reader = is_reader;
    start.url = "file://" + (root_ / "bucket").string();
    start.is_local_bucket = true;
    start.base_dir = (root_ / name / "local").string();
    start.take_over = true;
    fs::create_directories(start.base_dir);
    Options options;
    options.start = &start;
    options.settings = &settings_;
    options.server_id = name;
    options.warn = [this](const std::string &message) { warnings_.push_back(message); };
    bool has_claimed = false;
    Status status = Engine::open(options, out, &has_claimed);
    EXPECT_EQ(has_claimed, !is_reader);
    return status;
  }

  fs::path root_;
  Settings settings_;
  std::vector<std::string> warnings_;
};

// Ends the process as kill -9 does: no destructor runs.
[[noreturn]] void die() { ::_exit(testing::Test::HasFailure() ? 1 : 0); }

catalog::TableDef table_named(const std::string &name) {
  catalog::TableDef table;
  table.database = "d";
  table.name = name;
  return table;
}

Status put(Engine *engine, const std::string &key, const std::string &value, uint64_t *position = nullptr) {
  const auto transaction = engine->transactions()->begin(nullptr);
  lsm::Family *family = engine->database()->shared_family();
  ATOLL_RETURN_IF_ERROR(transaction->put(family, key, value));
  const Status status = transaction->commit(/*sync=*/true);
  if (position != nullptr) *position = transaction->commit_position();
  return status;
}

std::string get(Engine *engine, const std::string &key) {
  const auto transaction = engine->transactions()->begin(nullptr);
  rocksdb::PinnableSlice value;
  const Status status =
      transaction->get(engine->database()->shared_family(), key, txn::ReadAt::kLatest, &value);
  return status.ok() ? value.ToString() : "none";
}

TEST_F(EngineTest, what_was_committed_before_the_process_died_is_there_and_nothing_else) {
  const auto write_and_die = [&] {
    const std::unique_ptr<Engine> engine = open();
    catalog::TableDef table = table_named("t");
    EXPECT_TRUE(engine->catalog()->create(&table, false).ok());
    EXPECT_TRUE(put(engine.get(), "committed", "1").ok());
    const auto unfinished = engine->transactions()->begin(nullptr);
    EXPECT_TRUE(unfinished->put(engine->database()->shared_family(), "unfinished", "1").ok());
    die();
  };
  EXPECT_EXIT(write_and_die(), testing::ExitedWithCode(0), "");
  const std::unique_ptr<Engine> engine = open();
  EXPECT_FALSE(engine->was_restored());
  EXPECT_NE(engine->catalog()->find("d", "t"), nullptr);
  EXPECT_EQ(get(engine.get(), "committed"), "1");
  EXPECT_EQ(get(engine.get(), "unfinished"), "none");
}

TEST_F(EngineTest, with_sync_a_commit_behind_the_gate_is_in_the_bucket) {
  settings_.durability = ATOLL_DURABILITY_SYNC;
  const auto write_and_die = [&] {
    const std::unique_ptr<Engine> engine = open();
    uint64_t position = 0;
    EXPECT_TRUE(put(engine.get(), "k", "v", &position).ok());
    EXPECT_GT(position, 0u);
    EXPECT_TRUE(engine->gate().after_commit(position).ok());
    die();
  };
  EXPECT_EXIT(write_and_die(), testing::ExitedWithCode(0), "");
  fs::remove_all(root_ / "first");  // as if the machine were lost
  const std::unique_ptr<Engine> engine = open("second");
  EXPECT_TRUE(engine->was_restored());
  EXPECT_EQ(get(engine.get(), "k"), "v");
}

TEST_F(EngineTest, an_engine_that_was_closed_leaves_everything_in_the_bucket) {
  EXPECT_TRUE(put(open().get(), "k", "v").ok());
  fs::remove_all(root_ / "first");
  EXPECT_EQ(get(open("second").get(), "k"), "v");
}

TEST_F(EngineTest, a_writer_whose_bucket_another_one_took_is_refused) {
  settings_.durability = ATOLL_DURABILITY_SYNC;
  const std::unique_ptr<Engine> first = open();
  EXPECT_TRUE(first->may_write().ok());
  const std::unique_ptr<Engine> second = open("second");
  uint64_t position = 0;
  EXPECT_TRUE(put(first.get(), "k", "lost", &position).ok());
  EXPECT_EQ(first->gate().after_commit(position).code(), Code::kFenced);
  EXPECT_EQ(first->may_write().code(), Code::kFenced);
  EXPECT_TRUE(second->may_write().ok());
  EXPECT_EQ(get(second.get(), "k"), "none");
}

TEST_F(EngineTest, read_only_is_a_setting_that_holds_at_once) {
  const std::unique_ptr<Engine> engine = open();
  settings_.is_read_only = 1;
  EXPECT_EQ(engine->may_write().code(), Code::kReadOnly);
  settings_.is_read_only = 0;
  EXPECT_TRUE(engine->may_write().ok());
}

// Returns the value of `key` in the shared family of the view.
std::string get(const ViewPtr &view, const std::string &key) {
  const catalog::TablePtr table = View::find(view, "d", "t");
  if (!table) return "no table";
  const std::unique_ptr<rocksdb::Iterator> rows = view->find_family(table->family_id)->iterator({});
  rows->Seek(key);
  return rows->Valid() && rows->key() == key ? rows->value().ToString() : "none";
}

TEST_F(EngineTest, a_reader_takes_each_state_whole_and_an_old_view_stays_as_it_was) {
  settings_.durability = ATOLL_DURABILITY_SYNC;
  std::unique_ptr<Engine> reader;
  const Status early = open("reader", true, &reader);
  EXPECT_EQ(early.code(), Code::kUnavailable) << early.message();

  const std::unique_ptr<Engine> writer = open();
  catalog::TableDef table = table_named("t");
  ASSERT_TRUE(writer->catalog()->create(&table, false).ok());
  ASSERT_TRUE(put(writer.get(), "k", "1").ok());
  ASSERT_TRUE(writer->gate().publish_all().ok());
  const Status opened = open("reader", true, &reader);
  ASSERT_TRUE(opened.ok()) << opened.message();
  const ViewPtr first = reader->views()->newest();
  EXPECT_EQ(get(first, "k"), "1");
  EXPECT_EQ(reader->may_write().code(), Code::kReadOnly);
  ViewPtr next;
  ASSERT_TRUE(reader->views()->take(&next).ok());
  EXPECT_EQ(next, nullptr) << "there is nothing new";

  uint64_t position = 0;
  ASSERT_TRUE(put(writer.get(), "k", "2", &position).ok());
  ASSERT_TRUE(writer->gate().after_commit(position).ok());
  ASSERT_TRUE(reader->views()->take(&next).ok());
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(reader->views()->newest(), first) << "it is not shown yet";
  reader->views()->show(next);
  EXPECT_EQ(get(reader->views()->newest(), "k"), "2");
  EXPECT_EQ(reader->views()->settled(), first) << "tables may still be open as they were before";
  reader->views()->settle();
  EXPECT_EQ(get(first, "k"), "1");
  EXPECT_EQ(reader->views()->wait_for_other(first, std::chrono::steady_clock::now()), next);
}

TEST_F(EngineTest, a_table_of_a_view_keeps_the_view_open) {
  const std::unique_ptr<Engine> writer = open();
  catalog::TableDef table = table_named("t");
  ASSERT_TRUE(writer->catalog()->create(&table, false).ok());
  ASSERT_TRUE(writer->gate().publish_all().ok());
  std::unique_ptr<Engine> reader;
  ASSERT_TRUE(open("reader", true, &reader).ok());
  catalog::TablePtr found = View::find(reader->views()->newest(), "d", "t");
  ASSERT_TRUE(put(writer.get(), "k", "1").ok());
  ASSERT_TRUE(writer->gate().publish_all().ok());
  ViewPtr next;
  ASSERT_TRUE(reader->views()->take(&next).ok());
  ASSERT_NE(next, nullptr);
  reader->views()->show(std::move(next));
  reader->views()->settle();
  const fs::path views = root_ / "reader" / "local" / "reader" / "views";
  const auto count = [&] { return std::distance(fs::directory_iterator(views), fs::directory_iterator()); };
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(found->name, "t");
  found.reset();
  EXPECT_EQ(count(), 1) << "the last holder has closed it";
}

TEST_F(EngineTest, who_asks_for_the_running_engine_hears_why_there_is_none) {
  set_not_running(Status(Code::kInvalid, "no bucket"));
  EXPECT_EQ(running(), nullptr);
  EXPECT_EQ(may_write().code(), Code::kUnavailable);
  EXPECT_STREQ(ready().message(), "the ATOLL engine is not running: no bucket");
  set_waiting(Status(Code::kUnavailable, "s:1 may live"), std::chrono::seconds(100));
  EXPECT_THAT(ready().message(),
              testing::MatchesRegex("the ATOLL engine waits, (100|99|98) s more: s:1 may live"));
  const std::unique_ptr<Engine> engine = open();
  set_running(engine.get());
  EXPECT_EQ(running(), engine.get());
  EXPECT_TRUE(may_write().ok());
  set_not_running(Status(Code::kUnavailable, "stopped"));
  EXPECT_EQ(ready().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace atoll::engine
