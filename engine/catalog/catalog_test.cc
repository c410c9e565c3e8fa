// Tests each operation of the catalog over a plain RocksDB, and what a reopen finds after it. Crashes are
// tested in catalog_crash_test.cc.
#include "catalog/catalog.h"

#include <gtest/gtest.h>
#include <time.h>

#include <set>
#include <thread>

#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

TEST_F(CatalogTest, a_table_is_found_by_name_and_id_also_after_a_reopen) {
  const TableDef shared = create("t1"), own = create("t2", true);
  EXPECT_FALSE(shared.own_family);
  EXPECT_EQ(shared.prefix, shared.id);
  EXPECT_TRUE(own.own_family);
  EXPECT_EQ(own.prefix, 0u);
  EXPECT_NE(own.family_id, shared.family_id);
  for (int round = 0; round < 2; ++round, reopen()) {
    ASSERT_NE(catalog_->find("d", "t1"), nullptr);
    EXPECT_TRUE(*catalog_->find("d", "t1") == shared);
    EXPECT_TRUE(*catalog_->find(own.id) == own);
    EXPECT_EQ(catalog_->find("d", "t"), nullptr);
    EXPECT_EQ(catalog_->find("", "d/t1"), nullptr);
    EXPECT_EQ(catalog_->list("d").size(), 2u);
    EXPECT_TRUE(catalog_->list("e").empty());
    check_whole();
  }
}

TEST_F(CatalogTest, a_second_table_of_the_same_name_is_refused_and_leaves_no_family) {
  create("t", true);
  TableDef again = definition("t");
  EXPECT_EQ(catalog_->create(&again, true).code(), Code::kDuplicate);
  check_whole();
}

TEST_F(CatalogTest, ids_are_never_used_again) {
  std::set<uint32_t> ids;
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(ids.insert(create("t").id).second);
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
    if (i % 2 == 1) reopen();
  }
}

TEST_F(CatalogTest, a_dropped_table_is_gone_with_its_rows_counters_and_family) {
  for (const bool own : {false, true}) {
    const TableDef table = create("t", own);
    fill(table);
    ASSERT_TRUE(catalog_->set_auto_increment(table.id, 9).ok());
    catalog_->set_statistics(table.id, "many rows");
    ASSERT_TRUE(catalog_->write_statistics().ok());
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
    EXPECT_EQ(catalog_->find(table.id), nullptr);
    EXPECT_EQ(catalog_->auto_increment(table.id), 0u);
    EXPECT_EQ(catalog_->statistics(table.id), "");
    check_whole();
    EXPECT_EQ(catalog_->drop("d", "t").code(), Code::kNotFound);
  }
  reopen();
  EXPECT_TRUE(catalog_->list("").empty());
  EXPECT_EQ(keys(database_->catalog_family()), std::set<std::string>{meta_key()});
}

TEST_F(CatalogTest, truncate_keeps_the_definition_and_nothing_else) {
  for (const bool own : {false, true}) {
    const TableDef before = create(own ? "own" : "shared", own);
    fill(before);
    ASSERT_TRUE(catalog_->set_auto_increment(before.id, 9).ok());
    TablePtr after;
    ASSERT_TRUE(catalog_->truncate("d", before.name, &after).ok());
    EXPECT_EQ(after->id, before.id);
    EXPECT_EQ(after->own_family, own);
    EXPECT_TRUE(own ? after->family_id != before.family_id : after->prefix != before.prefix);
    EXPECT_EQ(after->frm, before.frm);
    EXPECT_EQ(catalog_->auto_increment(before.id), 0u);
    check_whole();
    reopen();
    EXPECT_TRUE(*catalog_->find(before.id) == *after);
    check_whole();
  }
}

TEST_F(CatalogTest, new_rows_are_readable_from_snapshots_that_see_them) {
  const auto newest = [this] { return database_->raw()->GetLatestSequenceNumber(); };
  const auto readable_from = [this](const char *name) {
    return catalog_->find("d", name)->readable_from.number;
  };
  uint64_t before = newest();
  const TableDef table = create("t");
  EXPECT_GT(readable_from("t"), before);
  EXPECT_LE(readable_from("t"), newest());

  fill(table);
  before = newest();
  TablePtr after;
  ASSERT_TRUE(catalog_->truncate("d", "t", &after).ok());
  EXPECT_GT(after->readable_from.number, before);

  // A rename keeps readable_from. Only a copy gets a new one, because its rows came after its creation.
  const uint64_t truncated_at = readable_from("t");
  fill(*after);
  ASSERT_TRUE(catalog_->rename("d", "t", "d", "#sql-backup-1-2").ok());
  EXPECT_EQ(readable_from("#sql-backup-1-2"), truncated_at);
  fill(create("#sql-alter-1-2"));
  before = newest();
  ASSERT_TRUE(catalog_->rename("d", "#sql-alter-1-2", "d", "t").ok());
  EXPECT_GT(readable_from("t"), before);
  fill(create("p#P#p0#TMP#"));
  before = newest();
  ASSERT_TRUE(catalog_->rename("d", "p#P#p0#TMP#", "d", "p#P#p0").ok());
  EXPECT_GT(readable_from("p#P#p0"), before);

  reopen();
  EXPECT_EQ(readable_from("t"), 0u);  // all snapshots see the rows: none is older than the server's start
}

TEST_F(CatalogTest, prefixes_given_by_truncate_clash_with_no_later_table) {
  create("t");
  TablePtr truncated;
  ASSERT_TRUE(catalog_->truncate("d", "t", &truncated).ok());
  reopen();
  const TableDef later = create("u");
  EXPECT_NE(later.prefix, truncated->prefix);
}

TEST_F(CatalogTest, rename_moves_and_refuses_taken_names) {
  const TableDef table = create("t");
  create("taken");
  EXPECT_EQ(catalog_->rename("d", "t", "d", "taken").code(), Code::kDuplicate);
  ASSERT_TRUE(catalog_->rename("d", "t", "e", "u").ok());
  for (int round = 0; round < 2; ++round, reopen()) {
    EXPECT_EQ(catalog_->find("d", "t"), nullptr);
    ASSERT_NE(catalog_->find("e", "u"), nullptr);
    EXPECT_EQ(catalog_->find("e", "u")->id, table.id);
  }
  EXPECT_EQ(catalog_->rename("d", "t", "d", "v").code(), Code::kNotFound);
}

TEST_F(CatalogTest, partitions_of_a_renaming_cut_off_are_put_back) {
  for (const char *name : {"t", "t#P#p0", "t#P#p1#SP#s"}) create(name);
  ASSERT_TRUE(catalog_->rename("d", "t#P#p0", "e", "u#P#p0").ok());
  reopen();
  ASSERT_NE(catalog_->find("d", "t#P#p0"), nullptr);
  EXPECT_TRUE(catalog_->find("d", "t#P#p0")->former_name.empty());
  EXPECT_EQ(catalog_->find("e", "u#P#p0"), nullptr);

  ASSERT_TRUE(catalog_->rename("d", "t#P#p0", "d", "#sql-backup-1#P#p0").ok());
  ASSERT_TRUE(catalog_->rename("d", "t#P#p1#SP#s", "d", "#sql-backup-1#P#p1#SP#s").ok());
  reopen();
  for (const char *name : {"t", "t#P#p0", "t#P#p1#SP#s"})
    EXPECT_NE(catalog_->find("d", name), nullptr) << name;

  for (const char *name : {"#P#p0", "#P#p1#SP#s", ""})
    ASSERT_TRUE(catalog_->rename("d", std::string("t") + name, "d", std::string("u") + name).ok());
  reopen();
  for (const char *name : {"u", "u#P#p0", "u#P#p1#SP#s"})
    EXPECT_NE(catalog_->find("d", name), nullptr) << name;
}

TEST_F(CatalogTest, update_replaces_the_definition_but_neither_renames_nor_creates) {
  TableDef table = create("t");
  table.frm = "another";
  const uint64_t generation = catalog_->generation();
  ASSERT_TRUE(catalog_->update(table).ok());
  EXPECT_GT(catalog_->generation(), generation);
  reopen();
  EXPECT_EQ(catalog_->find(table.id)->frm, "another");
  table.name = "u";
  EXPECT_EQ(catalog_->update(table).code(), Code::kBug);
  table.id = 1000;
  EXPECT_EQ(catalog_->update(table).code(), Code::kNotFound);
}

TEST_F(CatalogTest, dropped_indexes_lose_their_entries_only) {
  TableDef table = create("t");
  fill(table);
  TableDef without = table;
  std::erase_if(without.indexes, [](const IndexDef &index) { return index.name == "a"; });
  ASSERT_TRUE(catalog_->update(without).ok());
  ASSERT_TRUE(catalog_->reclaim().ok());
  EXPECT_EQ(keys(database_->shared_family()), (std::set<std::string>{index_range(table, 1).begin + "key",
                                                                     index_range(table, 3).begin + "key"}));
  reopen();
  EXPECT_TRUE(*catalog_->find(table.id) == without);
  check_whole();
}

// DROP INDEX a, ADD INDEX a: the new index has the same name. Only the entries of the old index are deleted.
TEST_F(CatalogTest, an_index_replaced_under_its_name_keeps_the_new_entries) {
  TableDef table = create("t");
  TableDef building = table;
  building.indexes.push_back({"a", building.next_ordinal++, false, true});
  ASSERT_TRUE(catalog_->update(building).ok());
  TableDef replaced = building;
  std::erase_if(replaced.indexes, [](const IndexDef &index) { return index.name == "a" && !index.building; });
  replaced.indexes.back().building = false;
  fill(building);
  ASSERT_TRUE(catalog_->update(replaced).ok());
  ASSERT_TRUE(catalog_->reclaim().ok());
  const std::set<std::string> left = keys(database_->shared_family());
  for (const IndexDef &index : building.indexes)
    EXPECT_EQ(left.contains(index_range(table, index.ordinal).begin + "key"),
              index.name != "a" || index.building);
  check_whole();
}

TEST_F(CatalogTest, half_built_indexes_go_at_open) {
  TableDef table = create("t");
  table.indexes[2].building = true;
  ASSERT_TRUE(catalog_->update(table).ok());
  fill(table);
  reopen();
  const TablePtr whole = catalog_->find(table.id);
  ASSERT_EQ(whole->indexes.size(), 2u);
  EXPECT_EQ(whole->indexes[1].name, "a");
  EXPECT_EQ(catalog_->find("d", "t"), whole);
  EXPECT_EQ(keys(database_->shared_family()).size(), 2u);
  check_whole();
}

TEST_F(CatalogTest, a_table_moves_into_a_family_of_its_own) {
  const TableDef table = create("t");
  TablePtr moved, again;
  ASSERT_TRUE(catalog_->move_to_own_family(table.id, &moved).ok());
  EXPECT_TRUE(moved->own_family);
  EXPECT_EQ(moved->prefix, 0u);
  ASSERT_TRUE(catalog_->move_to_own_family(table.id, &again).ok());
  EXPECT_EQ(again->family_id, moved->family_id);
  reopen();
  EXPECT_TRUE(*catalog_->find(table.id) == *moved);
  check_whole();
}

TEST_F(CatalogTest, what_a_moved_table_leaves_goes_with_the_last_snapshot_that_reads_it) {
  const TableDef table = create("t");
  fill(table);
  lsm::Family *family = nullptr;
  ASSERT_TRUE(database_->create_family(table.compression, &family).ok());
  TableDef moved = table;
  moved.family_id = family->id();
  moved.own_family = true;
  moved.prefix = 0;
  moved.readable_from.number = 100;
  ASSERT_TRUE(catalog_->update(moved).ok());
  database_->oldest_snapshot_number = 99;
  ASSERT_TRUE(catalog_->reclaim().ok());
  EXPECT_FALSE(keys(database_->shared_family()).empty());
  database_->oldest_snapshot_number = 100;
  ASSERT_TRUE(catalog_->reclaim().ok());
  EXPECT_TRUE(keys(database_->shared_family()).empty());

  lsm::Family *next = nullptr;
  ASSERT_TRUE(database_->create_family(table.compression, &next).ok());
  TableDef again = moved;
  const uint32_t last = again.family_id = next->id();
  ASSERT_TRUE(catalog_->update(again).ok());
  EXPECT_EQ(database_->find_family(moved.family_id), nullptr);
  reopen();
  EXPECT_EQ(catalog_->find(table.id)->family_id, last);
  check_whole();
}

TEST_F(CatalogTest, a_logical_table_has_neither_prefix_nor_family) {
  TableDef table = definition("p");
  table.logical_only = true;
  table.par = "par";
  ASSERT_TRUE(catalog_->create(&table, true).ok());
  EXPECT_EQ(table.prefix, 0u);
  reopen();
  EXPECT_EQ(catalog_->find("d", "p")->par, "par");
  TablePtr out;
  ASSERT_TRUE(catalog_->truncate("d", "p", &out).ok());
  ASSERT_TRUE(catalog_->drop("d", "p").ok());
  check_whole();
}

TEST_F(CatalogTest, the_entry_of_a_partitioned_table_is_created_and_then_replaced) {
  TableDef table;
  table.database = "d";
  table.name = "p";
  table.frm = "frm";
  ASSERT_TRUE(catalog_->put_partitioned(table).ok());
  const TablePtr made = catalog_->find("d", "p");
  EXPECT_TRUE(made->logical_only);
  EXPECT_EQ(made->versions.size(), 1u);
  table = *made;
  table.par = "par";
  ASSERT_TRUE(catalog_->put_partitioned(table).ok());
  reopen();
  EXPECT_EQ(catalog_->find("d", "p")->par, "par");
  EXPECT_EQ(catalog_->find("d", "p")->id, made->id);
}

TEST_F(CatalogTest, the_auto_increment_value_that_commits_with_rows_is_found_at_open) {
  const TableDef table = create("t");
  ASSERT_TRUE(database_->raw()
                  ->Put(rocksdb::WriteOptions(), database_->catalog_family()->handle(),
                        Catalog::auto_increment_key(table.id), Catalog::auto_increment_value(42))
                  .ok());
  catalog_->raise_auto_increment(table.id, 42);
  catalog_->raise_auto_increment(table.id, 41);
  EXPECT_EQ(catalog_->auto_increment(table.id), 42u);
  reopen();
  EXPECT_EQ(catalog_->auto_increment(table.id), 42u);
  ASSERT_TRUE(catalog_->set_auto_increment(table.id, 5).ok());
  reopen();
  EXPECT_EQ(catalog_->auto_increment(table.id), 5u);
  EXPECT_EQ(catalog_->set_auto_increment(99, 5).code(), Code::kNotFound);
}

TEST_F(CatalogTest, values_of_tables_dropped_meanwhile_go_at_open) {
  ASSERT_TRUE(database_->raw()
                  ->Put(rocksdb::WriteOptions(), database_->catalog_family()->handle(),
                        Catalog::auto_increment_key(500), Catalog::auto_increment_value(42))
                  .ok());
  create("t");
  reopen();
  EXPECT_EQ(catalog_->auto_increment(500), 0u);
  EXPECT_FALSE(keys(database_->catalog_family()).contains(Catalog::auto_increment_key(500)));
}

TEST_F(CatalogTest, databases_and_side_files_are_kept_and_unchanged_ones_are_not_written) {
  ASSERT_TRUE(catalog_->put_database({"d", "default-character-set=utf8mb4\n"}).ok());
  ASSERT_TRUE(catalog_->put_side_file({"d", "t.TRG", "TYPE=TRIGGERS"}).ok());
  ASSERT_TRUE(catalog_->put_side_file({"e", "u.TRG", "TYPE=TRIGGERS"}).ok());
  const auto sequence = database_->raw()->GetLatestSequenceNumber();
  ASSERT_TRUE(catalog_->put_database({"d", "default-character-set=utf8mb4\n"}).ok());
  ASSERT_TRUE(catalog_->put_side_file({"d", "t.TRG", "TYPE=TRIGGERS"}).ok());
  ASSERT_TRUE(catalog_->put_side_file({"d", "absent.TRG", ""}).ok());
  ASSERT_TRUE(catalog_->keep_database("d").ok());
  EXPECT_EQ(database_->raw()->GetLatestSequenceNumber(), sequence);
  reopen();
  EXPECT_EQ(catalog_->databases(), (std::vector<DatabaseDef>{{"d", "default-character-set=utf8mb4\n"}}));
  EXPECT_EQ(catalog_->side_files().size(), 2u);
  ASSERT_TRUE(catalog_->put_side_file({"e", "u.TRG", ""}).ok());
  ASSERT_TRUE(catalog_->drop_database("d").ok());
  reopen();
  EXPECT_TRUE(catalog_->databases().empty());
  EXPECT_TRUE(catalog_->side_files().empty());
}

TEST_F(CatalogTest, a_database_is_kept_when_its_last_table_is_gone) {
  ASSERT_TRUE(catalog_->keep_database("d").ok());
  create("t");
  ASSERT_TRUE(catalog_->drop("d", "t").ok());
  reopen();
  EXPECT_EQ(catalog_->databases(), (std::vector<DatabaseDef>{{"d", ""}}));
}

TEST_F(CatalogTest, tables_aside_go_with_their_database) {
  for (const char *name : {"#sqlx-backup-1-2", "#sqlx-backup-1-2#P#p0", "t"}) create(name);
  ASSERT_TRUE(catalog_->drop_database("d").ok());
  reopen();
  ASSERT_EQ(catalog_->list("").size(), 1u);
  EXPECT_NE(catalog_->find("d", "t"), nullptr);  // the server drops tables with ordinary names itself
}

TEST_F(CatalogTest, a_drop_that_cannot_reclaim_yet_succeeds_and_is_finished_later) {
  const TableDef table = create("t");
  fill(table);
  database_->fail_deletes(true);
  ASSERT_TRUE(catalog_->drop("d", "t").ok());
  EXPECT_FALSE(catalog_->reclaim().ok());
  EXPECT_EQ(keys(database_->shared_family()).size(), 3u);
  database_->fail_deletes(false);
  ASSERT_TRUE(catalog_->reclaim().ok());
  check_whole();
}

TEST_F(CatalogTest, neighbours_are_reclaimed_in_one_range) {
  std::vector<TableDef> tables;
  for (int i = 0; i < 5; ++i) fill(tables.emplace_back(create("t" + std::to_string(i))));
  for (const int i : {3, 1, 2}) ASSERT_TRUE(catalog_->drop("d", tables[i].name).ok());
  EXPECT_EQ(database_->deletes(), 0);
  ASSERT_TRUE(catalog_->reclaim().ok());
  EXPECT_EQ(database_->deletes(), 1);
  EXPECT_EQ(keys(database_->shared_family()).size(), 6u);
  ASSERT_TRUE(catalog_->reclaim().ok());
  EXPECT_EQ(database_->deletes(), 1);
  check_whole();
}

// ---- Broken records, size, threads --------------------------------------------------------------

TEST_F(CatalogTest, a_broken_record_is_corruption_that_names_its_table) {
  const TableDef table = create("t");
  const std::string key = table_key(RecordKind::kTable, table.id);
  std::string value;
  rocksdb::DB *raw = database_->raw();
  rocksdb::ColumnFamilyHandle *handle = database_->catalog_family()->handle();
  ASSERT_TRUE(raw->Get(rocksdb::ReadOptions(), handle, key, &value).ok());
  value[value.size() / 2] ^= 1;
  ASSERT_TRUE(raw->Put(rocksdb::WriteOptions(), handle, key, value).ok());
  std::unique_ptr<Catalog> broken;
  const Status status = Catalog::open(database_.get(), database_.get(), &broken);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(std::string(status.message()).find("id " + std::to_string(table.id)), std::string::npos)
      << status.message();
}

TEST_F(CatalogTest, a_table_whose_family_is_missing_is_corruption_that_names_it) {
  const TableDef table = create("lost", true);
  database_->drop_family(table.family_id);
  std::unique_ptr<Catalog> broken;
  const Status status = Catalog::open(database_.get(), database_.get(), &broken);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(std::string(status.message()).find("`d`.`lost`"), std::string::npos) << status.message();
}

TEST_F(CatalogTest, an_unknown_kind_of_record_is_corruption) {
  ASSERT_TRUE(raw_put(database_->catalog_family(), "?").ok());
  std::unique_ptr<Catalog> broken;
  EXPECT_EQ(Catalog::open(database_.get(), database_.get(), &broken).code(), Code::kCorruption);
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// A server with five thousand tables must start within 5 s. The catalog is allowed 1 s of that. The test
// measures processor time, because the machine may be busy with other tests.
TEST_F(CatalogTest, five_thousand_tables_open_within_a_second) {
  for (int i = 0; i < 5000; ++i) {
    TableDef table = definition("t" + std::to_string(i));
    table.frm.assign(1200, 'f');
    ASSERT_TRUE(catalog_->create(&table, false).ok());
  }
  const double start = thread_cpu_seconds();
  reopen();
  const double taken = thread_cpu_seconds() - start;
  EXPECT_EQ(catalog_->list("d").size(), 5000u);
  RecordProperty("open_ms", static_cast<int>(taken * 1000));
  EXPECT_LT(taken, 1.0);
}

TEST_F(CatalogTest, many_threads_create_rename_and_drop_at_once) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([this, worker] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "w" + std::to_string(worker) + "_" + std::to_string(i);
        TableDef table = definition(name);
        EXPECT_TRUE(catalog_->create(&table, false).ok());
        TableDef clash = definition("same");
        const Status status = catalog_->create(&clash, false);
        EXPECT_TRUE(status.ok() || status.code() == Code::kDuplicate);
        EXPECT_TRUE(catalog_->rename("d", name, "d", name + "r").ok());
        if (i % 2 == 0) {
          EXPECT_TRUE(catalog_->drop("d", name + "r").ok());
        }
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(catalog_->list("d").size(), 4u * 25 + 1);
  reopen();
  EXPECT_EQ(catalog_->list("d").size(), 4u * 25 + 1);
  check_whole();
}

}  // namespace
}  // namespace atoll::catalog
