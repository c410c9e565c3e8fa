// Goal:   the key that is made from a row of another table is the start of the key of each row with equal
//         values, and of no other row; columns whose values cannot be compared are refused by name.
// Method: random pairs of tables whose columns fit, in records of different forms.
#include "table/description/reference_key.h"

#include <gmock/gmock.h>

#include "table/description/test_rows.h"

namespace atoll::table {
namespace {

using catalog::ColumnDescription;
using catalog::SqlType;
using catalog::TableDescription;
using ::testing::AllOf;
using ::testing::HasSubstr;

const ToyCollations kCollations;

std::shared_ptr<const Layout> built(TableDescription description, bool odd) {
  const catalog::TablePtr def = definition_of(std::move(description));
  const catalog::RecordForm form = odd ? odd_record(def->description) : own_record(def->description);
  std::shared_ptr<const Layout> layout;
  const Status status = build_layout(def, def->description, form, kCollations, nullptr, &layout);
  EXPECT_TRUE(status.ok()) << status.message();
  return layout;
}

// A column that fits `parent`: it may be nullable or not, and texts may have another type and length.
ColumnDescription fitting(RandomDescription *random, const ColumnDescription &parent) {
  ColumnDescription child = parent;
  child.name = parent.name + "_of_child";
  child.nullable = random->coin();
  if (catalog::is_text(parent.type) && parent.charset.collation != "binary") {
    child = random->column(random->coin() ? SqlType::kChar : SqlType::kVarchar);
    child.name = parent.name + "_of_child";
    child.charset = parent.charset;
    const codec::Collation &collation = *kCollations.find(parent.charset);
    const bool needs_same =
        codec::keys_depend_on_length(collation) || (parent.type == SqlType::kChar && !collation.pad_space());
    if (needs_same) {
      child = parent;
      child.name = parent.name + "_of_child";
      child.nullable = random->coin();
    }
  }
  child.generated = catalog::Generated::kNo;
  return child;
}

bool is_short_text(const ColumnDescription &column) {
  return catalog::is_text(column.type) && column.charset.collation != "binary";
}

// A table whose primary key has one to three columns of types that can be referred to.
TableDescription random_parent(RandomDescription *random) {
  TableDescription parent;
  parent.primary = 0;
  parent.keys.push_back({"PRIMARY", true, false, {}});
  for (uint64_t i = 1 + random->below(3); i > 0; i--) {
    ColumnDescription column = random->column(SqlType::kInt);
    do column = random->column(static_cast<SqlType>(random->below(28)));
    while (is_blob(column.type));
    column.name = "p" + std::to_string(parent.columns.size());
    column.generated = catalog::Generated::kNo;
    parent.keys[0].parts.push_back({static_cast<uint16_t>(parent.columns.size()), 0, random->coin()});
    parent.columns.push_back(column);
  }
  return parent;
}

TEST(ReferenceKey, equal_values_have_the_key_of_the_other_table) {
  RandomDescription random(codec::testing::seed_of_this_run());
  uint64_t rows = 0;
  for (int round = 0; round < 500; round++) {
    const TableDescription parent = random_parent(&random);
    TableDescription child;
    std::vector<uint16_t> columns;
    for (const ColumnDescription &column : parent.columns) {
      columns.push_back(static_cast<uint16_t>(child.columns.size()));
      child.columns.push_back(fitting(&random, column));
    }
    const auto target = built(parent, true), source = built(child, false);
    std::unique_ptr<const ReferenceKey> reference;
    const Status status = ReferenceKey::make(*target, 0, *source, columns, &reference);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int i = 0; i < 10; i++) {
      std::vector<FieldValue> values;
      for (size_t c = 0; c < columns.size(); c++) {
        // A value that both columns can hold.
        const bool of_parent = parent.columns[c].length < child.columns[c].length;
        ColumnDescription shorter = of_parent ? parent.columns[c] : child.columns[c];
        shorter.nullable = false;
        std::string value = *random_value(&random, shorter);
        // A CHAR has no spaces at its end, which make a difference under NO PAD.
        while (is_short_text(parent.columns[c]) && value.ends_with(' ')) value.pop_back();
        values.push_back(std::make_shared<std::string>(std::move(value)));
      }
      const DescribedRow of_parent(parent, odd_record(parent), values),
          of_child(child, own_record(child), values);
      std::string wanted, key;
      target->primary_key(of_parent.data(), 0, &wanted);
      ASSERT_FALSE(reference->has_null(of_child.data()));
      reference->append(of_child.data(), &key);
      ASSERT_EQ(key, wanted) << text_of(parent.columns[0]) << " and " << text_of(child.columns[0]);
      rows++;
    }
  }
  EXPECT_EQ(rows, 5000u);
}

TEST(ReferenceKey, a_null_in_any_column_is_noticed) {
  RandomDescription random(11);
  TableDescription parent, child;
  for (const char *name : {"a", "b"}) {
    ColumnDescription column = random.column(SqlType::kInt);
    column.name = name;
    column.is_unsigned = column.zerofill = false;
    column.generated = catalog::Generated::kNo;
    column.nullable = true;
    child.columns.push_back(column);
    column.nullable = false;
    parent.columns.push_back(column);
  }
  parent.keys = {{"PRIMARY", true, false, {{0, 0, false}, {1, 0, false}}}};
  parent.primary = 0;
  const auto target = built(parent, false), source = built(child, true);
  std::unique_ptr<const ReferenceKey> reference;
  ASSERT_TRUE(ReferenceKey::make(*target, 0, *source, {0, 1}, &reference).ok());
  const FieldValue one = std::make_shared<std::string>("\1\0\0\0", 4);
  const catalog::RecordForm form = odd_record(child);
  EXPECT_TRUE(reference->has_null(DescribedRow(child, form, {one, nullptr}).data()));
  EXPECT_TRUE(reference->has_null(DescribedRow(child, form, {nullptr, one}).data()));
  EXPECT_FALSE(reference->has_null(DescribedRow(child, form, {one, one}).data()));
}

TEST(ReferenceKey, columns_that_cannot_be_compared_are_refused_by_name) {
  RandomDescription random(3);
  TableDescription parent;
  parent.columns = {random.column(SqlType::kInt), random.column(SqlType::kVarchar)};
  parent.columns[0].name = "id";
  parent.columns[0].is_unsigned = parent.columns[0].zerofill = false;
  parent.columns[1].name = "name";
  parent.columns[1].charset = RandomDescription::toy_charset(1);
  for (ColumnDescription &column : parent.columns) column.generated = catalog::Generated::kNo;
  parent.keys = {{"PRIMARY", true, false, {{0, 0, false}}},
                 {"n", false, false, {{1, 0, false}}},
                 {"cut", false, false, {{1, 1, false}}}};
  parent.primary = 0;
  const auto refused = [&](size_t index, auto &&change) {
    TableDescription child = parent;
    child.columns[0].name = "child_id";
    child.columns[1].name = "child_name";
    change(&child);
    const auto target = built(parent, false), source = built(child, false);
    std::unique_ptr<const ReferenceKey> reference;
    const uint16_t column = index == 0 ? 0 : 1;
    const Status status = ReferenceKey::make(*target, index, *source, {column}, &reference);
    EXPECT_EQ(status.ok() ? Code::kOk : status.code(), status.ok() ? Code::kOk : Code::kInvalid);
    return std::string(status.message());
  };
  EXPECT_THAT(refused(0, [](auto *child) { child->columns[0].is_unsigned = true; }),
              AllOf(HasSubstr("child_id"), HasSubstr("unsigned")));
  EXPECT_THAT(refused(0,
                      [](auto *child) {
                        child->columns[0].type = SqlType::kBigInt;
                        child->columns[0].record_bytes = 8;
                      }),
              AllOf(HasSubstr("child_id"), HasSubstr("bigint"), HasSubstr("types")));
  EXPECT_THAT(refused(1, [](auto *child) { child->columns[1].charset = RandomDescription::toy_charset(2); }),
              AllOf(HasSubstr("child_name"), HasSubstr("collations")));
  EXPECT_THAT(refused(2, [](auto *) {}), HasSubstr("prefix"));
  EXPECT_EQ(refused(1, [](auto *) {}), "");
  parent.columns[1] = random.column(SqlType::kChar);
  parent.columns[1].name = "name";
  parent.columns[1].generated = catalog::Generated::kNo;
  parent.columns[1].charset = RandomDescription::toy_charset(4);  // NO PAD
  EXPECT_THAT(refused(1, [](auto *child) { child->columns[1].record_bytes = ++child->columns[1].length; }),
              AllOf(HasSubstr("child_name"), HasSubstr("length")));
  EXPECT_EQ(refused(0, [](auto *) {}), "");
}

}  // namespace
}  // namespace atoll::table
