// Goal:   a bulk load makes exactly its rows visible, all at once or not at all; it finds duplicates; and it
//         leaves no files behind, however it ends.
// Method: random rows (seed printed) through the real loader with budgets small enough to spill; the result
//         is compared with a sorted map.
#include "lsm/load/bulk_load.h"

#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "lsm/load/external_sort.h"
#include "lsm/raw.h"
#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

constexpr Compression kZstd{Algorithm::kZstd, 0};

size_t files_under(const std::string &directory) {
  size_t found = 0;
  if (!std::filesystem::exists(directory)) return 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(directory)) {
    found += entry.is_regular_file() ? 1 : 0;
  }
  return found;
}

class BulkLoadTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_ATOLL_OK(open()); }
  Status open() {
    ATOLL_RETURN_IF_ERROR(database_.open());
    return database_->create_family(kZstd, &family_);
  }
  std::string bulk() const { return bulk_directory(database_.options.local_dir); }
  void expect_no_litter() {
    EXPECT_EQ(files_under(bulk()), 0u);
    EXPECT_EQ(database_.store()->staged_files(), 0u);
  }
  std::map<std::string, std::string> contents() {
    std::map<std::string, std::string> rows;
    const std::unique_ptr<rocksdb::Iterator> each = family_->iterator(rocksdb::ReadOptions());
    for (each->SeekToFirst(); each->Valid(); each->Next()) {
      rows[each->key().ToString()] = each->value().ToString();
    }
    return rows;
  }

  TestDatabase database_{true};
  Family *family_ = nullptr;
};

TEST_F(BulkLoadTest, few_rows_go_through_the_log_and_more_become_files) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, BulkLoad::kFewRows, BulkLoad::kFewRows + 2}) {
    SCOPED_TRACE(count);
    auto load = database_->bulk_load(family_, kZstd);
    load->write_few_to_log();
    const char index = static_cast<char>(count % 100 + 1);
    const std::array<size_t, 2> streams = {load->add_stream(false, nullptr),
                                           load->add_stream(false, nullptr)};
    std::map<std::string, std::string> expected = contents();
    for (uint64_t i = count; i > 0; --i) {
      const std::string key = test_key(i, index) + static_cast<char>(i % 2);
      ASSERT_ATOLL_OK(load->add(streams[i % 2], key, "value"));
      expected[key] = "value";
    }
    EXPECT_EQ(load->is_for_log(), count <= BulkLoad::kFewRows);
    const size_t files = database_->table_files().size();
    ASSERT_ATOLL_OK(load->finish(nullptr));
    EXPECT_EQ(contents(), expected);
    EXPECT_EQ(load->has_ingested(), count > BulkLoad::kFewRows);
    EXPECT_EQ(database_->table_files().size() > files, count > BulkLoad::kFewRows);
    load.reset();
    expect_no_litter();
  }
}

TEST_F(BulkLoadTest, a_duplicate_among_few_rows_is_found_and_nothing_is_written) {
  auto load = database_->bulk_load(family_, kZstd);
  load->write_few_to_log();
  const size_t plain = load->add_stream(false, nullptr);
  const size_t unique = load->add_stream(false, [](std::string_view key) { return key.size() - 1; });
  ASSERT_ATOLL_OK(load->add(plain, test_key(1, 1), "row"));
  for (const char end : {'b', 'a'}) ASSERT_ATOLL_OK(load->add(unique, test_key(7, 2) + end, ""));
  EXPECT_EQ(load->finish(nullptr).code(), Code::kDuplicate);
  EXPECT_EQ(load->duplicate_stream(), unique);
  EXPECT_EQ(load->duplicate_key(), test_key(7, 2) + 'b');
  EXPECT_TRUE(contents().empty());
}

TEST_F(BulkLoadTest, presorted_and_unsorted_streams_arrive_whole) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> expected;
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(true, nullptr);
  const size_t index = load->add_stream(false, nullptr);
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string key = test_key(i, 1);
    const std::string value = "row " + std::to_string(i);
    ASSERT_ATOLL_OK(load->add(rows, key, value));
    expected[key] = value;
    const std::string entry = test_key(random(), 2) + std::to_string(i);
    ASSERT_ATOLL_OK(load->add(index, entry, ""));
    expected[entry] = "";
  }
  EXPECT_EQ(database_.count(family_), 0);
  double last = -1;
  ASSERT_ATOLL_OK(load->finish([&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1.0);
    last = done;
    return true;
  }));
  EXPECT_EQ(contents(), expected);
  load.reset();
  expect_no_litter();
  EXPECT_GE(database_.store()->count("bind "), 2u);
}

TEST_F(BulkLoadTest, loaded_rows_survive_a_crash_and_lost_local_tables) {
  {
    auto load = database_->bulk_load(family_, kZstd);
    const size_t rows = load->add_stream(true, nullptr);
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_ATOLL_OK(load->add(rows, test_key(i), "v"));
    ASSERT_ATOLL_OK(load->finish(nullptr));
  }
  const uint32_t id = family_->id();
  database_.close();
  EXPECT_GT(database_.remove_local_tables(), 0u);
  ASSERT_ATOLL_OK(database_.open());
  EXPECT_EQ(database_.count(database_->find_family(id)), 1000);
}

TEST_F(BulkLoadTest, a_sort_beyond_its_budget_spills_and_stays_right) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string prefix = (database_.root() / "spill").string();
  ExternalSort sort(std::make_shared<SortBudget>(1 << 20), prefix);
  std::multimap<std::string, std::string> expected;
  for (int i = 0; i < 60000; ++i) {
    // Keys of different lengths, with zero bytes and shared prefixes. SortRun first compares 12 bytes of each
    // key as numbers, which makes a key and the same key with a zero byte at its end equal.
    std::string key = "p";
    const size_t length = random() % 20;
    for (size_t k = 0; k < length; ++k) key.push_back(static_cast<char>(random() % 3));
    key += i % 2 ? std::to_string(i) : std::string();
    const std::string value(random() % 40, static_cast<char>('a' + i % 26));
    ASSERT_ATOLL_OK(sort.add(key, value));
    expected.emplace(key, value);
  }
  std::string last;
  std::multimap<std::string, std::string> found;
  ASSERT_ATOLL_OK(sort.merge(
      [&](std::string_view key, std::string_view value) {
        EXPECT_LE(last, key);
        last.assign(key);
        found.emplace(key, value);
        return Status::Ok();
      },
      [] { return false; }));
  EXPECT_GT(sort.spilled_files(), 2u);
  ASSERT_EQ(found.size(), expected.size());
  for (auto a = found.begin(), b = expected.begin(); a != found.end();) {  // equal keys come in any order
    const auto [a_end, b_end] = std::pair(found.upper_bound(a->first), expected.upper_bound(b->first));
    std::multiset<std::string> left, right;
    for (; a != a_end; ++a) left.insert(a->second);
    for (; b != b_end; ++b) right.insert(b->second);
    ASSERT_EQ(left, right);
  }
}

// With a budget of 1 MiB, a run has 64 KiB, so the 120,000 rows of 82 bytes make some 150 runs. Only 64 files
// are merged at once, so the sort must merge files into larger ones first.
TEST_F(BulkLoadTest, more_files_than_may_be_open_are_merged_in_steps) {
  const std::string directory = (database_.root() / "sort").string();
  std::filesystem::create_directory(directory);
  const std::string prefix = directory + "/";
  const auto budget = std::make_shared<SortBudget>(1 << 20);
  constexpr uint64_t kRows = 120000;
  const std::string value(60, 'v');
  {
    ExternalSort sort(budget, prefix);
    for (uint64_t i = 0; i < kRows; ++i) ASSERT_ATOLL_OK(sort.add(test_key(i * 7919 % kRows), value));
    uint64_t next = 0;
    ASSERT_ATOLL_OK(sort.merge(
        [&](std::string_view key, std::string_view) {
          EXPECT_EQ(key, test_key(next++));
          return Status::Ok();
        },
        [] { return false; }));
    EXPECT_EQ(next, kRows);
    EXPECT_GT(sort.files_made(), 2 * 64u);
    EXPECT_EQ(sort.spilled_files(), 64u);
    EXPECT_EQ(files_under(directory), 64u);
  }
  EXPECT_EQ(files_under(directory), 0u);
  EXPECT_EQ(budget->bytes_used, 0u);

  ExternalSort aborted(budget, prefix);
  for (uint64_t i = 0; i < kRows; ++i) ASSERT_ATOLL_OK(aborted.add(test_key(i * 7919 % kRows), value));
  const Status status =
      aborted.merge([](std::string_view, std::string_view) { return Status::Ok(); }, [] { return true; });
  EXPECT_EQ(status.code(), Code::kInterrupted);
}

TEST_F(BulkLoadTest, rows_that_come_in_order_make_one_file) {
  ExternalSort sort(std::make_shared<SortBudget>(1 << 20), (database_.root() / "spill").string());
  constexpr uint64_t kRows = 60000;
  const std::string value(60, 'v');
  for (uint64_t i = 0; i < kRows; ++i) ASSERT_ATOLL_OK(sort.add(test_key(i), value));
  uint64_t next = 0;
  ASSERT_ATOLL_OK(sort.merge(
      [&](std::string_view key, std::string_view) {
        EXPECT_EQ(key, test_key(next++));
        return Status::Ok();
      },
      [] { return false; }));
  EXPECT_EQ(next, kRows);
  EXPECT_EQ(sort.files_made(), 1u);
}

TEST_F(BulkLoadTest, many_sorts_share_a_budget) {
  const auto budget = std::make_shared<SortBudget>(4 << 20);
  std::vector<std::unique_ptr<ExternalSort>> sorts;
  for (size_t i = 0; i < 40; ++i)
    sorts.push_back(std::make_unique<ExternalSort>(budget, (database_.root() / std::to_string(i)).string()));
  uint64_t most = 0;
  const std::string value(60, 'v');
  for (uint64_t i = 0; i < 10000; ++i) {
    for (const auto &sort : sorts) ASSERT_ATOLL_OK(sort->add(test_key(i * 7919 % 10000), value));
    most = std::max<uint64_t>(most, budget->bytes_used);
  }
  // At worst, each sort has four runs of the smallest size (64 KiB): one is filled, three wait or are sorted.
  EXPECT_LE(most, (4 << 20) + sorts.size() * 4 * (64 << 10));
  for (const auto &sort : sorts) {
    uint64_t next = 0;
    ASSERT_ATOLL_OK(sort->merge(
        [&](std::string_view key, std::string_view) {
          EXPECT_EQ(key, test_key(next++));
          return Status::Ok();
        },
        [] { return false; }));
    EXPECT_EQ(next, 10000u);
  }
}

// Adds the rows of one thread: of `count` keys, every `threads`-th from number `thread` on. `in_order`: in
// ascending order; otherwise mixed.
Status add_share(ExternalSort *sort, size_t thread, size_t threads, uint64_t count, bool in_order) {
  const std::string value(60, 'v');
  for (uint64_t i = thread; i < count; i += threads)
    ATOLL_RETURN_IF_ERROR(sort->add(test_key(in_order ? i : i * 7919 % count), value, thread));
  return Status::Ok();
}

std::vector<Status> add_by_threads(ExternalSort *sort, size_t threads, uint64_t count, bool in_order) {
  std::vector<Status> results(threads);
  std::vector<std::thread> adding;
  for (size_t thread = 0; thread < threads; ++thread)
    adding.emplace_back([&, thread] { results[thread] = add_share(sort, thread, threads, count, in_order); });
  for (std::thread &thread : adding) thread.join();
  return results;
}

TEST_F(BulkLoadTest, several_threads_add_to_one_sort_within_its_budget) {
  constexpr size_t kThreads = 4;
  constexpr uint64_t kRows = 100000;
  const auto budget = std::make_shared<SortBudget>(4 << 20);
  for (const bool in_order : {false, true}) {
    SCOPED_TRACE(in_order ? "in order" : "in any order");
    ExternalSort sort(budget, (database_.root() / "several").string(), kThreads);
    std::atomic<bool> adding{true};
    uint64_t most = 0;
    std::thread watch([&] {
      for (; adding; std::this_thread::yield()) most = std::max<uint64_t>(most, budget->bytes_used);
    });
    const std::vector<Status> results = add_by_threads(&sort, kThreads, kRows, in_order);
    adding = false;
    watch.join();
    for (const Status &result : results) ASSERT_TRUE(result.ok()) << result.message();
    // While a run is sorted, it takes 16 more bytes a row. A row here takes 82 bytes, so a run grows by
    // nearly a fifth. Each of the threads can be sorting a run, and a run has at most a sixteenth of the
    // budget.
    EXPECT_LE(most, budget->bytes_max + kThreads * (budget->bytes_max / 16) / 5);
    EXPECT_EQ(sort.rows(), kRows);
    uint64_t next = 0;
    ASSERT_ATOLL_OK(sort.merge(
        [&](std::string_view key, std::string_view) {
          EXPECT_EQ(key, test_key(next++));
          return Status::Ok();
        },
        [] { return false; }));
    EXPECT_EQ(next, kRows);
    if (in_order)
      EXPECT_LE(sort.files_made(), kThreads);
    else
      EXPECT_GT(sort.files_made(), kThreads);
  }
  EXPECT_EQ(budget->bytes_used, 0u);
  EXPECT_EQ(budget->adders, 0u);
}

TEST_F(BulkLoadTest, a_thread_that_cannot_spill_fails_the_sort) {
  const auto budget = std::make_shared<SortBudget>(1 << 20);
  {
    ExternalSort sort(budget, (database_.root() / "no" / "such" / "directory").string(), 2);
    for (const Status &result : add_by_threads(&sort, 2, 100000, false))
      EXPECT_EQ(result.code(), Code::kUnavailable);
    const Status merged =
        sort.merge([](std::string_view, std::string_view) { return Status::Ok(); }, [] { return false; });
    EXPECT_EQ(merged.code(), Code::kUnavailable);
  }
  EXPECT_EQ(budget->bytes_used, 0u);
}

TEST_F(BulkLoadTest, spilled_runs_are_removed) {
  database_.options.bulk_sort_bytes = 1 << 20;
  ASSERT_ATOLL_OK(database_.reopen());
  ASSERT_ATOLL_OK(database_->create_family(kZstd, &family_));
  auto load = database_->bulk_load(family_, kZstd);
  const size_t index = load->add_stream(false, nullptr);
  for (uint64_t i = 0; i < 100000; ++i) ASSERT_ATOLL_OK(load->add(index, test_key(i * 7919 % 100000), "x"));
  EXPECT_GT(files_under(bulk()), 0u);
  ASSERT_ATOLL_OK(load->finish(nullptr));
  EXPECT_EQ(database_.count(family_), 100000);
  load.reset();
  expect_no_litter();
}

TEST_F(BulkLoadTest, duplicates_are_found_in_both_kinds_of_stream) {
  for (const bool presorted : {true, false}) {
    SCOPED_TRACE(presorted ? "presorted" : "unsorted");
    auto load = database_->bulk_load(family_, kZstd);
    (void)load->add_stream(true, nullptr);
    // The first 14 bytes of a key must be unique; the letter after them stands for the row's primary key.
    const size_t index = load->add_stream(presorted, [](std::string_view) { return size_t{14}; });
    Status status = load->add(index, test_key(1) + "a", "");
    if (status.ok()) status = load->add(index, test_key(2) + "a", "");
    if (status.ok()) status = load->add(index, test_key(2) + "b", "");
    if (status.ok()) status = load->finish(nullptr);
    EXPECT_EQ(status.code(), Code::kDuplicate);
    EXPECT_STREQ(status.message(), "");
    EXPECT_EQ(load->duplicate_stream(), index);
    EXPECT_EQ(load->duplicate_key(), test_key(2) + "b");
    load.reset();
    EXPECT_EQ(database_.count(family_), 0);
    expect_no_litter();
  }
}

TEST_F(BulkLoadTest, of_several_streams_with_duplicates_the_first_is_reported) {
  constexpr uint64_t kRows = 50000;
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(false, nullptr);
  const size_t index = load->add_stream(false, nullptr);
  // The duplicate row is the last row in key order, and the duplicate index entry is the first entry. So the
  // load finds the index's duplicate earlier.
  for (uint64_t i = 0; i < kRows; ++i) ASSERT_ATOLL_OK(load->add(rows, test_key(i), ""));
  ASSERT_ATOLL_OK(load->add(rows, test_key(kRows - 1), ""));
  for (int i = 0; i < 2; ++i) ASSERT_ATOLL_OK(load->add(index, test_key(kRows), ""));
  EXPECT_EQ(load->finish(nullptr).code(), Code::kDuplicate);
  EXPECT_EQ(load->duplicate_stream(), rows);
  EXPECT_EQ(load->duplicate_key(), test_key(kRows - 1));
}

TEST_F(BulkLoadTest, duplicates_that_different_threads_add_are_found) {
  auto load = database_->bulk_load(family_, kZstd);
  const auto unique_bytes = [](std::string_view) { return size_t{14}; };
  const size_t index = load->add_stream(false, unique_bytes, StreamKind::kKnown, 2);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_ATOLL_OK(load->add(index, test_key(i) + "a", "", i % 2));
  ASSERT_ATOLL_OK(load->add(index, test_key(500) + "b", "", 1));
  EXPECT_EQ(load->finish(nullptr).code(), Code::kDuplicate);
  EXPECT_EQ(load->duplicate_stream(), index);
  EXPECT_EQ(load->duplicate_key(), test_key(500) + "b");
}

TEST_F(BulkLoadTest, exempt_keys_may_repeat_their_prefix_but_not_themselves) {
  auto load = database_->bulk_load(family_, kZstd);
  const size_t index = load->add_stream(true, [](std::string_view) { return size_t{0}; });
  ASSERT_ATOLL_OK(load->add(index, test_key(1) + "a", ""));
  ASSERT_ATOLL_OK(load->add(index, test_key(1) + "b", ""));
  EXPECT_EQ(load->add(index, test_key(1) + "b", "").code(), Code::kDuplicate);
}

TEST_F(BulkLoadTest, a_presorted_stream_out_of_order_is_a_bug) {
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(true, nullptr);
  ASSERT_ATOLL_OK(load->add(rows, test_key(2), ""));
  EXPECT_EQ(load->add(rows, test_key(1), "").code(), Code::kBug);
}

TEST_F(BulkLoadTest, an_abandoned_or_interrupted_load_leaves_nothing) {
  for (const bool interrupted : {false, true}) {
    auto load = database_->bulk_load(family_, Compression{Algorithm::kNone, 0});
    const size_t rows = load->add_stream(true, nullptr);
    const size_t index = load->add_stream(false, nullptr);
    const std::string value(4000, 'v');
    for (uint64_t i = 0; i < 20000; ++i) {  // 80 MB: a file of 32 MiB is complete, and its upload begins
      ASSERT_ATOLL_OK(load->add(rows, test_key(i, 1), value));
      ASSERT_ATOLL_OK(load->add(index, test_key(i, 2), ""));
    }
    ASSERT_TRUE(TestDatabase::wait_for([&] { return database_.store()->count("stage") > 0; }));
    if (interrupted) {
      EXPECT_EQ(load->finish([](double) { return false; }).code(), Code::kInterrupted);
    }
    load.reset();
    EXPECT_EQ(database_.count(family_), 0);
    expect_no_litter();
  }
}

TEST_F(BulkLoadTest, an_upload_that_fails_fails_the_load) {
  database_.store()->fail = [](const std::string &call) {
    return call.starts_with("stage") ? Code::kFenced : Code::kOk;
  };
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(true, nullptr);
  ASSERT_ATOLL_OK(load->add(rows, test_key(1), "v"));
  EXPECT_EQ(load->finish(nullptr).code(), Code::kFenced);
  load.reset();
  EXPECT_EQ(database_.count(family_), 0);
  expect_no_litter();
}

// A file of the last level that has a sequence number is compacted by RocksDB as soon as no snapshot needs
// the number. Its rows are then written a second time. So loaded files must have no sequence number.
TEST_F(BulkLoadTest, a_load_beside_a_snapshot_is_written_once) {
  rocksdb::DB *db = Raw::of(database_, Side::kMain);
  ASSERT_ATOLL_OK(database_.put(family_, test_key(1), "before"));
  const rocksdb::Snapshot *snapshot = db->GetSnapshot();
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(true, nullptr);
  for (uint64_t i = 10; i < 20; i++) ASSERT_ATOLL_OK(load->add(rows, test_key(i), "v"));
  ASSERT_ATOLL_OK(load->finish(nullptr));
  db->ReleaseSnapshot(snapshot);
  EXPECT_EQ(database_.count(family_), 11);
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].largest_seqno, 0u);
}

TEST_F(BulkLoadTest, a_failed_ingestion_leaves_neither_rows_nor_files) {
  database_.store()->fail = [](const std::string &call) {
    return call.starts_with("bind ") ? Code::kUnavailable : Code::kOk;
  };
  auto load = database_->bulk_load(family_, kZstd);
  const size_t rows = load->add_stream(true, nullptr);
  ASSERT_ATOLL_OK(load->add(rows, test_key(1), "v"));
  EXPECT_EQ(load->finish(nullptr).code(), Code::kUnavailable);
  load.reset();
  EXPECT_EQ(database_.count(family_), 0);
  expect_no_litter();
}

TEST_F(BulkLoadTest, what_a_killed_load_left_is_wiped_at_open) {
  std::filesystem::create_directories(bulk() + "/1");
  std::ofstream(bulk() + "/1/s0-000001.sst") << "half a file";
  database_.close();
  std::filesystem::create_directories(bulk() + "/1");
  std::ofstream(bulk() + "/1/s0-000001.sst") << "half a file";
  ASSERT_ATOLL_OK(database_.open());
  expect_no_litter();
}

TEST_F(BulkLoadTest, an_empty_load_is_fine) {
  auto load = database_->bulk_load(family_, kZstd);
  (void)load->add_stream(true, nullptr);
  (void)load->add_stream(false, nullptr);
  ASSERT_ATOLL_OK(load->finish(nullptr));
}

TEST_F(BulkLoadTest, rows_enter_the_temporary_family_too) {
  auto load = database_->bulk_load(database_->temp_family(), Compression{});
  const size_t rows = load->add_stream(false, nullptr);
  for (uint64_t i = 100; i-- > 0;) ASSERT_ATOLL_OK(load->add(rows, test_key(i), "v"));
  ASSERT_ATOLL_OK(load->finish(nullptr));
  EXPECT_EQ(database_.count(database_->temp_family()), 100);
  EXPECT_EQ(database_.store()->count("stage"), 0u);
}

}  // namespace
}  // namespace atoll::lsm
