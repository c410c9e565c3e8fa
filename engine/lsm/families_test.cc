// Goal:   families are handed out, pooled, dropped and reconciled without loss or leak, across reopens.
// Method: the tests use Database and reopen it as after a crash; the fake store records each note_ddl call.
#include "lsm/families.h"
#include "lsm/raw.h"

#include <set>

#include "lsm/upkeep/idle_flush.h"
#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

TEST(FamiliesTest, families_of_the_default_compression_come_from_a_pool) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  database->reconcile_families([](uint32_t) { return false; });
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database.counter("families_pooled") > 0; }));
  const size_t noted = database.store()->count("note_ddl");
  const uint64_t pooled = database.counter("families_pooled");
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(database.options.default_compression, &family));
  EXPECT_EQ(database.counter("families_pooled"), pooled - 1);
  EXPECT_EQ(database.store()->count("note_ddl"), noted);
}

TEST(FamiliesTest, many_creations_in_a_row_give_different_families) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  std::set<uint32_t> ids;
  for (int i = 0; i < 60; ++i) {
    Family *family = nullptr;
    ASSERT_ATOLL_OK(
        database->create_family(i % 3 ? Compression{} : Compression{Algorithm::kZstd, 3}, &family));
    EXPECT_TRUE(ids.insert(family->id()).second);
    ASSERT_ATOLL_OK(database.put(family, "k", std::to_string(family->id())));
  }
  ASSERT_ATOLL_OK(database.reopen());
  for (const uint32_t id : ids) {
    ASSERT_NE(database->find_family(id), nullptr);
    EXPECT_EQ(database.get(database->find_family(id), "k"), std::to_string(id));
  }
}

TEST(FamiliesTest, unknown_families_return_to_the_pool_or_are_dropped) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *known = nullptr;
  Family *orphan = nullptr;
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &known));
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &orphan));
  ASSERT_ATOLL_OK(database.put(known, "k", "v"));
  ASSERT_ATOLL_OK(database.put(orphan, "k", "v"));
  const uint32_t known_id = known->id();
  const uint32_t orphan_id = orphan->id();
  ASSERT_ATOLL_OK(database.reopen());
  const size_t noted = database.store()->count("note_ddl");
  database->reconcile_families([&](uint32_t id) { return id == known_id; });
  EXPECT_EQ(database.get(database->find_family(known_id), "k"), "v");
  EXPECT_EQ(database->find_family(orphan_id), nullptr);
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database.store()->count("note_ddl") > noted; }));
  // create_family() has made a batch of 16. Those that it did not hand out were empty, so they are reused.
  EXPECT_GT(database.counter("families_pooled"), 0u);
  ASSERT_ATOLL_OK(database.reopen());
  EXPECT_EQ(database->find_family(orphan_id), nullptr);
  EXPECT_EQ(database.get(database->find_family(known_id), "k"), "v");
}

TEST(FamiliesTest, a_dropped_family_stays_readable_to_whoever_has_an_iterator) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *family = nullptr;
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &family));
  for (uint64_t i = 0; i < 100; ++i) ASSERT_ATOLL_OK(database.put(family, test_key(i), "v"));
  ASSERT_ATOLL_OK(database->flush(family));
  std::unique_ptr<rocksdb::Iterator> rows = family->iterator(rocksdb::ReadOptions());
  const size_t noted = database.store()->count("note_ddl");
  database->drop_family(family->id());
  EXPECT_EQ(database->find_family(family->id()), nullptr);
  ASSERT_TRUE(TestDatabase::wait_for([&] { return database.store()->count("note_ddl") > noted; }));
  int64_t found = 0;
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) ++found;
  EXPECT_TRUE(rows->status().ok());
  EXPECT_EQ(found, 100);
  rows.reset();
  ASSERT_ATOLL_OK(database.reopen());
}

TEST(FamiliesTest, objects_of_a_dropped_family_are_removed_while_the_server_runs) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  const SharedParts parts = make_shared_parts(database.options);
  FamilyRegistry::Settings settings;
  settings.release_delay = std::chrono::milliseconds(10);
  FamilyRegistry registry(Raw::below(database, Side::kMain), &parts, settings);
  Family *family = nullptr;
  ASSERT_ATOLL_OK(registry.create(Compression{Algorithm::kNone, 0}, &family));
  ASSERT_ATOLL_OK(database.put(family, "k", "v"));
  ASSERT_ATOLL_OK(database->flush(family));
  const size_t objects = database.store()->objects();
  registry.drop(family->id());
  EXPECT_TRUE(TestDatabase::wait_for([&] { return database.store()->objects() < objects; }));
  EXPECT_NE(family->handle(), nullptr);
}

TEST(IdleFlushTest, rows_nobody_adds_to_are_flushed_and_busy_families_are_left_alone) {
  TestDatabase database(true);
  ASSERT_ATOLL_OK(database.open());
  Family *idle = nullptr;
  Family *busy = nullptr;
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &idle));
  ASSERT_ATOLL_OK(database->create_family(Compression{}, &busy));
  ASSERT_ATOLL_OK(database.put(idle, "k", "v"));
  rocksdb::DB *db = Raw::below(database, Side::kMain);
  const auto rows_in_memory = [&](Family *family) {
    uint64_t rows = 0;
    db->GetIntProperty(family->handle(), rocksdb::DB::Properties::kNumEntriesActiveMemTable, &rows);
    return rows;
  };
  IdleFlush::Settings settings;
  settings.idle_after = std::chrono::milliseconds(1000);
  settings.look_every = std::chrono::milliseconds(20);
  const std::vector<FamilyImpl *> families = {static_cast<FamilyImpl *>(idle),
                                              static_cast<FamilyImpl *>(busy)};
  IdleFlush flush(
      db, [&] { return families; }, settings);
  uint64_t written = 0;
  ASSERT_TRUE(TestDatabase::wait_for([&] {
    EXPECT_TRUE(database.put(busy, std::to_string(written++), "v").ok());
    return rows_in_memory(idle) == 0;
  }));
  EXPECT_GT(rows_in_memory(busy), 0u);
  EXPECT_EQ(database.get(idle, "k"), "v");
}

}  // namespace
}  // namespace atoll::lsm
