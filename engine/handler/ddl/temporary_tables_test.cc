// Goal:   a TEMPORARY table is found under its path until it is removed, with its AUTO_INCREMENT counter. Two
//         TEMPORARY tables never share a key prefix.
// Method: calls the registry, which needs no files. The process has one registry, so each test uses paths
//         of its own.
#include "handler/ddl/temporary_tables.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace atoll::handler {
namespace {

catalog::TablePtr add(const std::string &path) {
  catalog::TableDef def;
  def.name = path;
  return TemporaryTables::add(path, std::move(def));
}

TEST(TemporaryTablesTest, a_table_is_found_under_its_path_until_it_is_removed) {
  EXPECT_EQ(TemporaryTables::find("found"), nullptr);
  const catalog::TablePtr table = add("found");
  EXPECT_EQ(TemporaryTables::find("found"), table);
  EXPECT_EQ(TemporaryTables::remove("found"), table);
  EXPECT_EQ(TemporaryTables::find("found"), nullptr);
  EXPECT_EQ(TemporaryTables::remove("found"), nullptr);
}

TEST(TemporaryTablesTest, a_removed_table_leaves_no_number_to_the_next_of_its_name) {
  add("numbers");
  EXPECT_EQ(TemporaryTables::auto_increment("numbers"), 0u);
  TemporaryTables::set_auto_increment("numbers", 42);
  EXPECT_EQ(TemporaryTables::auto_increment("numbers"), 42u);
  TemporaryTables::remove("numbers");
  add("numbers");
  EXPECT_EQ(TemporaryTables::auto_increment("numbers"), 0u);
}

TEST(TemporaryTablesTest, a_renamed_table_keeps_its_definition_and_its_number) {
  const catalog::TablePtr table = add("before");
  TemporaryTables::set_auto_increment("before", 7);
  TemporaryTables::rename("before", "after");
  EXPECT_EQ(TemporaryTables::find("before"), nullptr);
  EXPECT_EQ(TemporaryTables::auto_increment("before"), 0u);
  EXPECT_EQ(TemporaryTables::find("after"), table);
  EXPECT_EQ(TemporaryTables::auto_increment("after"), 7u);
}

TEST(TemporaryTablesTest, to_rename_what_is_not_there_changes_nothing) {
  const catalog::TablePtr table = add("there");
  TemporaryTables::set_auto_increment("there", 3);
  TemporaryTables::rename("not there", "there");
  EXPECT_EQ(TemporaryTables::find("there"), table);
  EXPECT_EQ(TemporaryTables::auto_increment("there"), 3u);
}

TEST(TemporaryTablesTest, tables_that_are_made_at_the_same_time_have_different_prefixes) {
  constexpr size_t kThreads = 4, kTables = 250;
  std::vector<std::vector<uint32_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([t, &taken] {
      for (size_t i = 0; i < kTables; ++i) {
        const std::string path = std::to_string(t) + "." + std::to_string(i);
        taken[t].push_back(i % 2 == 0 ? add(path)->prefix : TemporaryTables::take_prefix());
      }
    });
  for (std::thread &thread : threads) thread.join();
  std::set<uint32_t> all;
  for (const auto &prefixes : taken) all.insert(prefixes.begin(), prefixes.end());
  EXPECT_EQ(all.size(), kThreads * kTables);
  EXPECT_EQ(all.count(0), 0u) << "prefix 0 is that of rows in a family of their own";
}

}  // namespace
}  // namespace atoll::handler
