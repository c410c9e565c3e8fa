// Goal:   the database keeps its data over restarts, with its table files in a bucket or without one, and
//         reports its files and log to the store in the right order.
// Method: a real RocksDB over the fake object layer; local table files are removed while the database is
//         closed.
#include <algorithm>
#include <fstream>
#include <map>

#include "lsm/options.h"
#include "lsm/raw.h"
#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

constexpr Compression kZstd6{Algorithm::kZstd, 6};

TEST(DatabaseTest, a_new_database_has_its_fixed_families) {
  TestDatabase database(false);
  ASSERT_ATOLL_OK(database.open());
  ASSERT_NE(database->catalog_family(), nullptr);
  ASSERT_NE(database->shared_family(), nullptr);
  EXPECT_EQ(database->temp_family()->side(), Side::kTemp);
  ASSERT_ATOLL_OK(database.put(database->catalog_family(), "a", "1"));
  ASSERT_ATOLL_OK(database.shut_down());
  ASSERT_ATOLL_OK(database.open());
  EXPECT_EQ(database.get(database->catalog_family(), "a"), "1");
}

TEST(DatabaseTest, writes_survive_a_crash_through_the_wal) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(kZstd6, &family));
  const uint32_t id = family->id();
  ASSERT_ATOLL_OK(database.put(family, "k", "v"));
  ASSERT_ATOLL_OK(database.reopen());
  ASSERT_NE(database->find_family(id), nullptr);
  EXPECT_EQ(database.get(database->find_family(id), "k"), "v");
}

// The store deletes the log of a former process from the bucket only after RocksDB has reported how far it
// replayed the log.
TEST(DatabaseTest, the_store_hears_how_far_the_replay_came) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_ATOLL_OK(database.put(database->shared_family(), test_key(i), "v"));
  }
  const size_t before = database.store()->recorded().size();
  ASSERT_ATOLL_OK(database.reopen());
  const std::vector<std::string> calls = database.store()->recorded();
  const auto opened = std::find_if(calls.begin() + static_cast<ptrdiff_t>(before), calls.end(),
                                   [](const std::string &call) { return call.starts_with("opened "); });
  ASSERT_NE(opened, calls.end());
  EXPECT_GE(std::stoull(opened->substr(std::string("opened ").size())), 100u);
}

TEST(DatabaseTest, a_clean_shutdown_leaves_nothing_to_the_wal) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  ASSERT_ATOLL_OK(database.shut_down());
  for (const auto &entry : std::filesystem::directory_iterator(database.options.local_dir)) {
    if (entry.path().extension() == ".log") std::filesystem::remove(entry.path());
  }
  ASSERT_ATOLL_OK(database.open());
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
}

// At each flush, but not at a start, RocksDB notes in the MANIFEST which WALs it still needs. If two flushes
// end together, each still sees the other's memtable, so neither notes that the WAL is not needed any more.
TEST(DatabaseTest, a_clean_shutdown_leaves_no_wal_of_families_flushed_together) {
  constexpr int kRounds = 20, kFamilies = 8;
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  std::vector<uint32_t> ids;
  for (int i = 0; i < kFamilies; ++i) {
    Family *family = nullptr;
    ASSERT_ATOLL_OK(database->create_family(kZstd6, &family));
    ids.push_back(family->id());
  }
  for (int round = 0; round < kRounds; ++round) {
    for (const uint32_t id : ids)
      ASSERT_ATOLL_OK(database.put(database->find_family(id), "k", std::to_string(round)));
    ASSERT_ATOLL_OK(database.shut_down());
    ASSERT_ATOLL_OK(database.open());
    EXPECT_EQ(database.wal_bytes(), 0u) << "round " << round;
  }
}

TEST(DatabaseTest, a_start_after_a_crash_keeps_no_wal_that_it_has_replayed) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", std::string(100000, 'v')));
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_TRUE(database.wait_for([&] { return database.wal_bytes() == 0; }))
      << database.wal_bytes() << " bytes";
  EXPECT_EQ(database.get(database->shared_family(), "k").size(), 100000u);
}

bool has_file_with(const std::filesystem::path &directory, const std::string &text) {
  for (const auto &entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || entry.path().filename() == "LOG") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (content.find(text) != std::string::npos) return true;
  }
  return false;
}

// The masking of a clone relies on this: former values and deleted keys are gone from all files, also from
// the MANIFEST, which has the smallest and largest key of each file.
TEST(DatabaseTest, a_rewrite_leaves_no_file_with_former_rows_or_keys) {
  TestDatabase database(false);
  database.options.default_compression = {Algorithm::kNone, 0};
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family({Algorithm::kNone, 0}, &family));
  ASSERT_ATOLL_OK(database.put(family, "secret key", "1"));
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "secret value"));
  ASSERT_ATOLL_OK(database->flush(nullptr));
  ASSERT_ATOLL_OK(database->compact(database->shared_family(), "", ""));
  const rocksdb::Snapshot *reader = database->take_snapshot(Side::kMain);
  ASSERT_ATOLL_OK(database.remove(family, "secret key"));
  ASSERT_ATOLL_OK(database.put(family, "open key", "1"));
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "open value"));
  ASSERT_ATOLL_OK(database.put(database->catalog_family(), "c", "1"));
  uint64_t last_former = 0;
  EXPECT_EQ(database->rewrite(&last_former).code(), Code::kUnavailable)
      << "a reader still needs the former rows";
  database->release_snapshot(Side::kMain, reader);
  ASSERT_TRUE(has_file_with(database.root(), "secret"));
  ASSERT_ATOLL_OK(database->rewrite(&last_former));
  EXPECT_GT(last_former, 0u);
  for (const TableFile &file : database->table_files()) EXPECT_GT(file.number, last_former);
  EXPECT_TRUE(database.wait_for([&] { return !has_file_with(database.root(), "secret"); }));
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_EQ(database.get(database->shared_family(), "k"), "open value");
}

TEST(DatabaseTest, reads_succeed_with_every_local_table_gone) {
  TestDatabase database(true);
  database.store()->evict_after_upload = true;
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(kZstd6, &family));
  const uint32_t id = family->id();
  for (uint64_t i = 0; i < 5000; ++i) ASSERT_ATOLL_OK(database.put(family, test_key(i), std::to_string(i)));
  ASSERT_ATOLL_OK(database->flush(family));
  ASSERT_ATOLL_OK(database.shut_down());
  EXPECT_EQ(database.remove_local_tables(), 0u);
  ASSERT_ATOLL_OK(database.open());
  EXPECT_EQ(database.count(database->find_family(id)), 5000);
  EXPECT_GT(database.store()->count("read "), 0u);
  ASSERT_ATOLL_OK(database->compact(database->find_family(id), "", ""));
  EXPECT_EQ(database.count(database->find_family(id)), 5000);
}

// Gate PUB-G1: a root is published only when the table files that its MANIFEST names are uploaded. For that,
// the store must get every table file before the MANIFEST bytes that name it are reported durable.
TEST(DatabaseTest, tables_reach_the_store_before_the_manifest_that_names_them) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  const size_t before = database.store()->recorded().size();
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  ASSERT_ATOLL_OK(database->flush(database->shared_family()));
  const std::vector<std::string> calls = database.store()->recorded();
  const auto find = [&](const std::string &prefix) {
    return std::find_if(calls.begin() + static_cast<ptrdiff_t>(before), calls.end(),
                        [&](const std::string &call) { return call.starts_with(prefix); });
  };
  ASSERT_NE(find("add "), calls.end());
  ASSERT_NE(find("manifest_synced "), calls.end());
  EXPECT_LT(find("wal_appended "), find("add "));
  EXPECT_LT(find("add "), find("manifest_synced "));
}

TEST(DatabaseTest, a_manifest_is_announced_synced_before_it_is_current) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  const std::vector<std::string> calls = database.store()->recorded();
  const auto current = std::find_if(calls.begin(), calls.end(),
                                    [](const std::string &call) { return call.starts_with("current_set "); });
  ASSERT_NE(current, calls.end());
  const std::string number = current->substr(std::string("current_set ").size());
  const auto synced = std::find_if(calls.begin(), current, [&](const std::string &call) {
    return call.starts_with("manifest_synced " + number + " ");
  });
  EXPECT_NE(synced, current);
}

TEST(DatabaseTest, compression_of_a_family_survives_without_an_options_file) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(kZstd6, &family));
  const uint32_t id = family->id();
  ASSERT_ATOLL_OK(database.shut_down());
  for (const auto &entry : std::filesystem::directory_iterator(database.options.local_dir)) {
    if (entry.path().filename().string().starts_with("OPTIONS")) std::filesystem::remove(entry.path());
  }
  ASSERT_ATOLL_OK(database.open());
  rocksdb::ColumnFamilyDescriptor descriptor;
  ASSERT_TRUE(database->find_family(id)->handle()->GetDescriptor(&descriptor).ok());
  EXPECT_EQ(descriptor.options.bottommost_compression, rocksdb::kZSTD);
  EXPECT_EQ(descriptor.options.bottommost_compression_opts.level, 6);
}

double memtable_filter_part(Family *family) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  EXPECT_TRUE(family->handle()->GetDescriptor(&descriptor).ok());
  return descriptor.options.memtable_whole_key_filtering ? descriptor.options.memtable_prefix_bloom_size_ratio
                                                         : 0;
}

TEST(DatabaseTest, memtables_have_filters_until_there_are_too_many_families) {
  TestDatabase database(false);
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(Compression(), &family));
  const uint32_t first = family->id();
  EXPECT_GT(memtable_filter_part(family), 0);
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_GT(memtable_filter_part(database->find_family(first)), 0);
  const uint64_t families_max = filtered_families_max(make_shared_parts(database.options));
  EXPECT_TRUE(database->has_room_for_family());
  for (uint64_t i = 0; i < families_max; ++i)
    ASSERT_ATOLL_OK(database->create_family(Compression(), &family));
  EXPECT_FALSE(database->has_room_for_family());
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_EQ(memtable_filter_part(database->find_family(first)), 0);
  EXPECT_GT(memtable_filter_part(database->shared_family()), 0);
}

TEST(DatabaseTest, files_that_are_not_in_the_bucket_fit_on_a_small_disk) {
  DatabaseOptions options;
  options.block_cache_bytes = 4ull << 30;
  for (const uint64_t disk_bytes : {256ull << 20, 1ull << 30, 8ull << 30}) {
    options.disk_bytes = disk_bytes;
    const SharedParts parts = make_shared_parts(options);
    const uint64_t memtables = parts.write_buffers->buffer_size();
    EXPECT_LE(memtables + parts.wal_bytes_max + parts.compaction_bytes_max + parts.table_file_bytes,
              disk_bytes / 4)
        << disk_bytes;
    EXPECT_GE(parts.table_file_bytes, 4u << 20);
    EXPECT_GE(parts.compaction_bytes_max, 4 * parts.table_file_bytes);
  }
  options.disk_bytes = 1ull << 40;
  const SharedParts large = make_shared_parts(options);
  options.disk_bytes = 0;
  const SharedParts any = make_shared_parts(options);
  EXPECT_EQ(large.write_buffers->buffer_size(), any.write_buffers->buffer_size());
  EXPECT_EQ(large.table_file_bytes, kTableFileBytes);
}

// RocksDB's TransactionDB would keep the last memtable of each family that is not written any more, for
// conflict checks. Atoll turns that off.
TEST(DatabaseTest, a_flushed_memtable_leaves_memory) {
  TestDatabase database(false);
  ASSERT_ATOLL_OK(database.open());
  const auto memtable_bytes = [&] { return database.counter("memtable_bytes"); };
  const auto write_and_flush = [&] {
    Family *const family = database->shared_family();
    ASSERT_ATOLL_OK(database.put(family, test_key(1), std::string(4 << 20, 'v')));
    EXPECT_GE(memtable_bytes(), 4 << 20);
    ASSERT_ATOLL_OK(database->flush(family));
    EXPECT_TRUE(TestDatabase::wait_for([&] { return memtable_bytes() < 2 << 20; }));
  };
  write_and_flush();
  // So far the family was new. In a family that open() finds, RocksDB must not keep the memtable either.
  ASSERT_ATOLL_OK(database.reopen());
  write_and_flush();
}

TEST(DatabaseTest, a_fenced_database_refuses_writes_and_keeps_serving_reads) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  ASSERT_ATOLL_OK(database->flush(nullptr));
  database.store()->fenced = true;
  EXPECT_EQ(database.put(database->shared_family(), "k2", "v").code(), Code::kFenced);
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
  EXPECT_EQ(database.get(database->shared_family(), "k2"), "");
  EXPECT_EQ(database->background_error().code(), Code::kFenced);
  Family *family = nullptr;
  EXPECT_EQ(database->create_family(kZstd6, &family).code(), Code::kFenced);
}

TEST(DatabaseTest, a_silent_bucket_is_unavailable_and_never_corruption) {
  TestDatabase database(true);
  database.store()->evict_after_upload = true;
  ASSERT_ATOLL_OK(database.open());
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  ASSERT_ATOLL_OK(database->flush(nullptr));
  ASSERT_ATOLL_OK(database.reopen());
  database.store()->fail = [](const std::string &call) {
    const bool bucket = call.starts_with("read ") || call.starts_with("open ");
    return bucket ? Code::kUnavailable : Code::kOk;
  };
  std::string value;
  const rocksdb::Status status = database->shared_family()->get(rocksdb::ReadOptions(), "k", &value);
  EXPECT_EQ(from_rocksdb(status).code(), Code::kUnavailable) << status.ToString();
  database.store()->fail = nullptr;
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
}

TEST(DatabaseTest, writes_resume_after_a_full_disk) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  std::atomic<bool> full{true};
  database.store()->fail = [&](const std::string &call) {
    return full && call.starts_with("add ") ? Code::kNoSpace : Code::kOk;
  };
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  EXPECT_EQ(database->flush(database->shared_family()).code(), Code::kNoSpace);
  EXPECT_EQ(database->background_error().code(), Code::kNoSpace);
  EXPECT_EQ(database.put(database->shared_family(), "k2", "v").code(), Code::kNoSpace);
  full = false;
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database->background_error().ok(); }));
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k3", "v"));
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
}

TEST(DatabaseTest, flushes_resume_by_themselves_when_the_bucket_answers_again) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  std::atomic<bool> silent{true};
  database.store()->fail = [&](const std::string &call) {
    return silent && call.starts_with("add ") ? Code::kUnavailable : Code::kOk;
  };
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  EXPECT_EQ(database->flush(database->shared_family()).code(), Code::kUnavailable);
  EXPECT_EQ(database->background_error().code(), Code::kUnavailable);
  silent = false;
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database->background_error().ok(); }));
  ASSERT_TRUE(
      TestDatabase::wait_for([&] { return database.put(database->shared_family(), "k2", "v").ok(); }));
  ASSERT_ATOLL_OK(database->flush(nullptr));
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
  EXPECT_EQ(database.get(database->shared_family(), "k2"), "v");
}

TEST(DatabaseTest, tables_of_a_killed_process_are_handed_to_the_store_at_open) {
  TestDatabase database(false);
  ASSERT_ATOLL_OK(database.open());
  ASSERT_ATOLL_OK(database.put(database->shared_family(), "k", "v"));
  ASSERT_ATOLL_OK(database->flush(nullptr));
  database.close();
  atoll_store store((database.root() / "late").string());
  database.options.store = &store;
  ASSERT_ATOLL_OK(database.open());
  EXPECT_GT(store.count("add "), 0u);
  EXPECT_EQ(database.get(database->shared_family(), "k"), "v");
  database.close();
}

TEST(DatabaseTest, delete_range_hides_rows_at_once_and_gives_the_space_back) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &family));
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_ATOLL_OK(database.put(family, test_key(i, 1), std::string(100, 'a')));
    ASSERT_ATOLL_OK(database.put(family, test_key(i, 2), std::string(100, 'b')));
  }
  ASSERT_ATOLL_OK(database->flush(family));
  ASSERT_ATOLL_OK(database->delete_range(family, test_key(0, 1), test_key(0, 2)));
  EXPECT_EQ(database.count(family), 2000);
  EXPECT_EQ(database.get(family, test_key(7, 1)), "");
  EXPECT_EQ(database.get(family, test_key(7, 2)), std::string(100, 'b'));
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database.counter("ranges_to_reclaim") == 0; }));
  uint64_t keys = 0;
  Raw::of(database, Side::kMain)->GetIntProperty(family->handle(), "rocksdb.estimate-num-keys", &keys);
  EXPECT_EQ(keys, 2000u);
  EXPECT_EQ(database.count(family), 2000);
}

TEST(DatabaseTest, temporary_rows_touch_neither_wal_nor_bucket_and_are_gone_at_restart) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  Family *family = database->temp_family();
  const size_t before = database.store()->recorded().size();
  ASSERT_TRUE(Raw::of(family)->Put(options, family->handle(), "k", "v").ok());
  ASSERT_ATOLL_OK(database->flush(family));
  EXPECT_EQ(database.get(family, "k"), "v");
  EXPECT_EQ(database.store()->recorded().size(), before);
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_EQ(database.get(database->temp_family(), "k"), "");
}

// counters() looks the figures up by name in a map that RocksDB fills. This test checks that it uses the
// right names; the figures themselves are RocksDB's.
TEST(DatabaseTest, counters_have_the_levels_of_the_shared_family) {
  TestDatabase database(false);
  ASSERT_ATOLL_OK(database.open());
  rocksdb::ColumnFamilyHandle *const shared = database->shared_family()->handle();
  const auto add_file = [&](uint64_t row) {
    ASSERT_ATOLL_OK(database.put(database->shared_family(), test_key(row), std::string(10000, 'v')));
    ASSERT_ATOLL_OK(database->flush(database->shared_family()));
  };
  const auto expect_levels = [&](size_t files) {
    rocksdb::ColumnFamilyMetaData expected;
    Raw::of(database, Side::kMain)->GetColumnFamilyMetaData(shared, &expected);
    const auto counters = database->counters();
    const std::map<std::string, uint64_t> found(counters.begin(), counters.end());
    EXPECT_EQ(expected.file_count, files);
    for (const rocksdb::LevelMetaData &level : expected.levels) {
      const std::string suffix = "_level_" + std::to_string(level.level);
      EXPECT_EQ(found.at("shared_family_files" + suffix), level.files.size()) << suffix;
      EXPECT_EQ(found.at("shared_family_bytes" + suffix), level.size) << suffix;
    }
  };
  expect_levels(0);
  for (uint64_t row = 0; row < 2; ++row) add_file(row);
  expect_levels(2);
  ASSERT_ATOLL_OK(database->compact(database->shared_family(), "", ""));
  expect_levels(1);
  add_file(2);
  expect_levels(2);
}

TEST(FamilyNameTest, names_round_trip_and_others_are_refused) {
  for (const Algorithm algorithm : {Algorithm::kNone, Algorithm::kLz4, Algorithm::kZstd, Algorithm::kZlib}) {
    const FamilyName name{42, {algorithm, 7}};
    const auto parsed = parse_family_name(format_family_name(name));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->sequence, 42u);
    EXPECT_EQ(parsed->compression, name.compression);
  }
  for (const char *wrong : {"", "t", "default", "catalog", "t1", "t1.zstd", "t1.brotli.3", "tx.zstd.3",
                            "t1.zstd.", "t1.zstd.-1", "t1.zstd.101", "x00000001.zstd.3"}) {
    EXPECT_FALSE(parse_family_name(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace atoll::lsm
