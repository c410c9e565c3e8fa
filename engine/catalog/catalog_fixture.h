// Tests only: a catalog over a TestDatabase in a directory of its own, and a check of its invariants.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "catalog/catalog.h"
#include "catalog/record.h"
#include "catalog/test_database.h"

namespace atoll::catalog {

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() {
    // The directory is in memory if the system has /dev/shm, because the tests make thousands of synced
    // writes and their durability is not tested here.
    char name[] = "/dev/shm/atoll_catalog_XXXXXX", fallback[] = "/tmp/atoll_catalog_XXXXXX";
    const char *made = ::mkdtemp(name);
    directory_ = made != nullptr ? made : ::mkdtemp(fallback);
    reopen();
  }
  ~CatalogTest() override {
    catalog_.reset();
    database_.reset();
    std::filesystem::remove_all(directory_);
  }

  void reopen() {
    catalog_.reset();
    database_.reset();
    database_ = std::make_unique<TestDatabase>(directory_ + "/db");
    const Status status = Catalog::open(database_.get(), database_.get(), &catalog_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  static TableDef definition(const std::string &name) {
    TableDef table;
    table.database = "d";
    table.name = name;
    table.indexes = {{"PRIMARY", 1, true, false}, {"a", 2, false, false}, {"b", 3, false, false}};
    table.next_ordinal = 4;
    table.column_ids = {1, 2, 3};
    table.versions = {{1, {{1, codec::ColumnKind::kFixed, 4, false}}}};
    table.frm = "frm of " + name;
    return table;
  }

  TableDef create(const std::string &name, bool own_family = false) {
    TableDef table = definition(name);
    const Status status = catalog_->create(&table, own_family);
    EXPECT_TRUE(status.ok()) << status.message();
    return table;
  }

  // Writes one entry into each index of the table.
  void fill(const TableDef &table) {
    lsm::Family *family = database_->find_family(table.family_id);
    for (const IndexDef &index : table.indexes)
      ASSERT_TRUE(raw_put(family, index_range(table, index.ordinal).begin + "key").ok());
  }
  // Gives `clone` a family with the rows of `source`.
  bool clone_family_of(const TableDef &source, TableDef *clone) {
    lsm::Family *family = nullptr;
    const Status status = database_->clone_family(database_->find_family(source.family_id), nullptr,
                                                  source.compression, &family);
    if (status.ok()) clone->family_id = family->id();
    return status.ok();
  }
  rocksdb::Status raw_put(lsm::Family *family, const std::string &key) {
    return database_->raw()->Put(rocksdb::WriteOptions(), family->handle(), key, "row");
  }
  std::set<std::string> keys(lsm::Family *family) {
    std::set<std::string> found;
    const std::unique_ptr<rocksdb::Iterator> rows(
        database_->raw()->NewIterator(rocksdb::ReadOptions(), family->handle()));
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) found.insert(rows->key().ToString());
    return found;
  }

  // Runs reclaim(), and checks what must hold after it: the database has exactly the families of the tables,
  // every row in the shared family has the prefix of a table, and no range waits to be deleted.
  void check_whole() {
    ASSERT_TRUE(catalog_->reclaim().ok());
    std::set<uint32_t> families;
    std::set<std::string> prefixes;
    for (const TablePtr &table : catalog_->list("")) {
      if (table->own_family)
        families.insert(table->family_id);
      else
        prefixes.insert(table_range(*table).begin);
    }
    EXPECT_EQ(database_->own_families(), families);
    for (const std::string &key : keys(database_->shared_family()))
      EXPECT_TRUE(prefixes.contains(key.substr(0, 4))) << "rows without a table";
    for (const std::string &key : keys(database_->catalog_family()))
      EXPECT_NE(key[0], static_cast<char>(RecordKind::kDoomed)) << "a range was not reclaimed";
  }

  std::string directory_;
  std::unique_ptr<TestDatabase> database_;
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace atoll::catalog
