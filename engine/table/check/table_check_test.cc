// Goal:   a check finds no problem in rows that RowWriter has written, also while other sessions write. The
//         check names each entry that is missing, superfluous or wrong, and each row that cannot be read.
// Method: rows in a real database; the test changes single entries directly in RocksDB.
#include "table/check/table_check.h"

#include <gmock/gmock.h>

#include <map>

#include "table/description/layout_builder.h"
#include "table/testing/stored_table.h"

namespace atoll::table {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kRows = 100;

class TestView final : public CheckView {
 public:
  explicit TestView(const TestTable &table) : table_(table), record_(table.record_length()) {}

  std::vector<std::string> complaints;  // each as "index: problem"
  std::vector<size_t> explained;
  std::map<uint32_t, std::string> wrong_values;  // by the id of the row
  uint64_t tested = 0;
  bool killed = false;

  uint8_t *record() override { return record_.data(); }
  void compute_virtual_columns(size_t) override {}
  std::vector<std::string> test_values(std::string_view) override {
    tested++;
    const auto wrong = wrong_values.find(table_.row(record_.data()).id);
    if (wrong == wrong_values.end()) return {};
    return {wrong->second};
  }
  std::string row_text(std::string_view) override {
    return "'" + std::to_string(table_.row(record_.data()).id) + "'";
  }
  bool is_killed() const override { return killed; }
  void complain(const std::string &index, const std::string &problem) override {
    complaints.push_back(index + ": " + problem);
  }
  void explain_difference(size_t index) override { explained.push_back(index); }

 private:
  const TestTable &table_;
  std::vector<uint8_t> record_;
};

class TableCheckTest : public StoredTableTest<TestTable> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    for (uint32_t id = 0; id < kRows; id++) rows_[id] = {id, id % 7, kRows - id};
    for (const auto &[id, row] : rows_) write(row);
  }

  void write(const Row &row) {
    Session session(table_, layout_, manager_.get(), true);
    ASSERT_ATOLL_OK(session.write(row.id, std::nullopt, row));
    session.commit(&committed_);
  }
  std::string key(size_t index, const Row &row) const { return table_.key(*layout_, index, row, 2); }
  void put(const std::string &key, const std::string &value) {
    ASSERT_ATOLL_OK(database_.put(layout_->family(), key, value));
  }
  void remove(const std::string &key) { ASSERT_ATOLL_OK(database_.remove(layout_->family(), key)); }

  Status check(bool with_files = false, const std::shared_ptr<const Layout> &described = nullptr) {
    const std::unique_ptr<txn::Transaction> transaction = manager_->begin(nullptr);
    TableCheck check(*layout_, transaction.get(), database_.operator->(), &view_);
    if (described != nullptr)
      check.compare_with(described, catalog::own_record(described->def().description).record_bytes);
    Status status = check.run(with_files);
    EXPECT_EQ(check.problems(), view_.complaints.size());
    return status;
  }

  // A description of TestTable, with its rows under the same keys.
  catalog::TableDef described() const {
    catalog::TableDef def = layout_->def();
    catalog::TableDescription &description = def.description;
    for (const char *name : {"id", "a", "u"}) {
      catalog::ColumnDescription column;
      column.name = name;
      column.record_bytes = 4;
      column.is_unsigned = true;
      column.nullable = column.name != "id";
      description.columns.push_back(column);
      def.column_ids.push_back(static_cast<uint32_t>(description.columns.size()));
    }
    description.keys = {{"PRIMARY", true, false, {{0, 0, false}}},
                        {"a", false, false, {{1, 0, false}}},
                        {"u", true, false, {{2, 0, false}}}};
    description.primary = 0;
    def.indexes = {{"PRIMARY", 1, true}, {"a", 2, false}, {"u", 3, true}};
    def.versions = {{1, {}}};
    return def;
  }
  std::shared_ptr<const Layout> described_layout(const catalog::TableDef &def) {
    class NoCollations final : public Collations {
      const codec::Collation *find(const catalog::Charset &) const override { return nullptr; }
    };
    std::shared_ptr<const Layout> layout;
    const Status status =
        build_layout(std::make_shared<const catalog::TableDef>(def), def.description,
                     catalog::own_record(def.description), NoCollations(), layout_->family(), &layout);
    EXPECT_TRUE(status.ok()) << status.message();
    return layout;
  }

  TestView view_{table_};
  Rows rows_, committed_;
};

TEST_F(TableCheckTest, finds_nothing_where_nothing_is_wrong) {
  for (const bool with_files : {false, true}) {
    ASSERT_ATOLL_OK(check(with_files));
    EXPECT_THAT(view_.complaints, IsEmpty());
    ASSERT_ATOLL_OK(database_->flush(nullptr));
  }
  EXPECT_THAT(view_.explained, IsEmpty());
}

TEST_F(TableCheckTest, does_not_see_what_others_have_not_committed) {
  Session session(table_, layout_, manager_.get(), true);
  ASSERT_ATOLL_OK(session.write(kRows, std::nullopt, Row{kRows, 1, kRows + 1}));
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, IsEmpty());
  session.rollback();
}

TEST_F(TableCheckTest, names_a_missing_entry_by_its_row) {
  remove(key(kSecondary, rows_[42]));
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, ElementsAre(HasSubstr("a: the entry of row '42' is missing")));
  EXPECT_THAT(view_.explained, ElementsAre(kSecondary));
}

TEST_F(TableCheckTest, names_an_entry_of_no_row) {
  put(key(kUnique, {.id = kRows, .u = kRows + 1}), "");
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints,
              ElementsAre(AllOf(HasSubstr("u: the entry"), HasSubstr("a row that does not exist"))));
}

TEST_F(TableCheckTest, names_a_second_entry_of_a_row) {
  put(key(kSecondary, {.id = 42, .a = 1000}), "");
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, ElementsAre(HasSubstr("has other values than its row '42'")));
}

TEST_F(TableCheckTest, names_an_entry_with_another_value) {
  put(key(kSecondary, rows_[42]), "x");
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, ElementsAre(HasSubstr("the entry of row '42' has the value 0x78")));
}

TEST_F(TableCheckTest, two_mistakes_do_not_make_up_for_each_other) {
  remove(key(kSecondary, rows_[42]));
  put(key(kSecondary, {.id = 42, .a = 1000}), "");
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, SizeIs(2));
}

TEST_F(TableCheckTest, names_a_row_under_the_key_of_another) {
  put(key(kPrimary, rows_[42]), database_.get(layout_->family(), key(kPrimary, rows_[43])));
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, ElementsAre(HasSubstr("'43', belong to another key")));
}

TEST_F(TableCheckTest, names_a_row_that_cannot_be_read_and_leaves_the_indexes) {
  put(key(kPrimary, rows_[42]), "\x01");
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, ElementsAre(HasSubstr(": row with the key 0x")));
  EXPECT_THAT(view_.explained, IsEmpty());
}

TEST_F(TableCheckTest, names_a_row_whose_values_are_not_those_of_its_definition) {
  view_.wrong_values = {{42, "column `g` is wrong"}, {43, "column `h` is wrong"}};
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints,
              ElementsAre(": row '42': column `g` is wrong", ": row '43': column `h` is wrong"));
  EXPECT_EQ(view_.tested, kRows) << "each row once";
}

TEST_F(TableCheckTest, names_ten_problems_and_ends) {
  for (const auto &[id, row] : rows_) remove(key(kSecondary, row));
  ASSERT_ATOLL_OK(check());
  EXPECT_THAT(view_.complaints, SizeIs(10));
}

TEST_F(TableCheckTest, names_what_the_description_in_the_catalog_encodes_in_another_way) {
  const catalog::TableDef def = described();
  ASSERT_ATOLL_OK(check(true, described_layout(def)));
  EXPECT_THAT(view_.complaints, IsEmpty());

  catalog::TableDef wrong_key = def;
  wrong_key.description.keys[1].parts[0].descending = true;
  ASSERT_ATOLL_OK(check(true, described_layout(wrong_key)));
  EXPECT_THAT(view_.complaints, ::testing::Each(HasSubstr("a: row '")));
  EXPECT_THAT(view_.complaints, ::testing::Contains(HasSubstr("the key in the catalog gives another entry")));

  view_.complaints.clear();
  catalog::TableDef wrong_primary = def;
  wrong_primary.description.columns[0].is_unsigned = false;
  ASSERT_ATOLL_OK(check(true, described_layout(wrong_primary)));
  EXPECT_THAT(view_.complaints,
              ::testing::Contains(HasSubstr("the columns in the catalog give other bytes")));
}

TEST_F(TableCheckTest, ends_when_its_statement_is_killed) {
  for (uint32_t id = kRows; id < 2000; id++) write({id, id, id + 1});
  view_.killed = true;
  EXPECT_EQ(check().code(), Code::kInterrupted);
}

}  // namespace
}  // namespace atoll::table
