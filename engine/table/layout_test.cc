// Goal:   an entry gives the key of its row. A key of a table gives the key that the row or entry has after
//         the table has moved. A unique key with a NULL need not be unique.
// Method: all combinations of a few values of each column, in a table with an index of two columns, one of
//         them descending.
#include "table/layout.h"

#include <gmock/gmock.h>

#include "codec/test_tables.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;
using Text = std::optional<std::string>;
using Number = std::optional<uint32_t>;

constexpr size_t kPrimary = 0, kBoth = 1;

// A family that has an id but no data.
class NamedFamily final : public lsm::Family {
 public:
  explicit NamedFamily(uint32_t id) : id_(id) {}
  uint32_t id() const override { return id_; }
  lsm::Side side() const override { return lsm::Side::kMain; }
  rocksdb::ColumnFamilyHandle *handle() const override { return nullptr; }

 private:
  rocksdb::DB *base() const override { return nullptr; }
  uint32_t id_;
};

// t (id INT UNSIGNED NOT NULL, n INT UNSIGNED, v VARBINARY(30), UNIQUE both (n DESC, v)); PRIMARY KEY (id)
// or none.
class LayoutTest : public ::testing::Test {
 protected:
  struct Values {
    uint32_t id;
    Number n;
    Text v;
    bool has_null() const { return !n || !v; }
  };

  LayoutTest() {
    id_ = table_.add(codec::testing::fixed(4), false);
    n_ = table_.add(codec::testing::fixed(4), true);
    v_ = table_.add(codec::testing::varchar(30), true);
  }

  Layout layout(bool has_primary, catalog::FormerPlace former = {}) {
    const codec::KeyPart id{.kind = codec::KeyKind::kUnsigned, .source = id_, .never_null = true};
    const codec::KeyPart n{.kind = codec::KeyKind::kUnsigned, .source = n_, .descending = true};
    const codec::KeyPart v{.kind = codec::KeyKind::kBinary, .source = v_};
    Layout::Columns columns;
    columns.row = std::make_shared<codec::RowCodec>(1, table_.columns());
    columns.stored = {0, 1, 2};
    columns.primary = has_primary ? 0 : -1;
    if (has_primary) columns.indexes.push_back(index(4, {id}, 1));
    columns.indexes.push_back(index(5, has_primary ? std::vector{n, v, id} : std::vector{n, v}, 2));
    auto def = std::make_shared<catalog::TableDef>();
    def->prefix = 7;
    def->indexes = {{.name = "", .ordinal = 4}, {.name = "both", .ordinal = 5}};
    def->former_place = former;
    return Layout(std::move(def), &family_, std::move(columns));
  }
  static IndexLayout index(uint16_t ordinal, std::vector<codec::KeyPart> parts, size_t user_parts) {
    IndexLayout index;
    index.ordinal = ordinal;
    index.unique = true;
    index.user_parts = user_parts;
    index.parts.assign(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(user_parts));
    index.codec = std::make_shared<const codec::KeyCodec>(ordinal, std::move(parts), user_parts);
    return index;
  }

  codec::testing::Record record(const Values &values) const {
    const auto bytes = [](uint32_t value) {
      std::string bytes(4, '\0');
      store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), value, 4);
      return bytes;
    };
    codec::testing::Record record(table_);
    record.set(id_, bytes(values.id));
    values.n ? record.set(n_, bytes(*values.n)) : record.set_null_value(n_);
    values.v ? record.set(v_, *values.v) : record.set_null_value(v_);
    return record;
  }
  static std::string primary_key(const Layout &layout, const codec::testing::Record &record) {
    std::string key;
    layout.primary_key(record.data(), 42, &key);
    return key;
  }
  std::string entry(const Layout &layout, const Values &values, bool *has_null) const {
    const codec::testing::Record record = this->record(values);
    std::string key, value;
    layout.secondary_entry(layout.index_count() - 1, record.data(), primary_key(layout, record), &key, &value,
                           has_null);
    return key;
  }
  // All combinations of `n` and `v` in the order of the index, which is descending in `n`, so NULL comes
  // last.
  static std::vector<Values> rows(uint32_t id) {
    std::vector<Values> rows;
    for (const Number &n : {Number(0xFFFFFFFF), Number(1), Number(0), Number()})
      for (const Text &v :
           {Text(), Text(""), Text(std::string(1, '\0')), Text("a"), Text(std::string(30, 'z'))})
        rows.push_back({id, n, v});
    return rows;
  }

  codec::testing::Table table_;
  codec::Column id_, n_, v_;
  NamedFamily family_{3};
};

TEST_F(LayoutTest, hidden_ids_are_in_the_order_of_their_bytes) {
  std::string before;
  for (const uint64_t id :
       {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{256}, uint64_t{1} << 63, UINT64_MAX}) {
    std::string bytes;
    append_hidden_id(id, &bytes);
    EXPECT_EQ(bytes.size(), kHiddenIdLength);
    EXPECT_EQ(hidden_id_of(bytes), id);
    EXPECT_LE(before, bytes);
    before = bytes;
  }
}

TEST_F(LayoutTest, an_entry_names_its_row_and_stands_in_the_order_of_its_index) {
  for (const bool has_primary : {true, false}) {
    const Layout layout = this->layout(has_primary);
    const size_t number = layout.index_count() - 1;
    std::string before = layout.index(number).start;
    for (const Values &values : rows(7)) {
      bool has_null = false;
      const std::string entry = this->entry(layout, values, &has_null);
      EXPECT_LT(before, entry);
      EXPECT_LT(entry, layout.index(number).end);
      std::string primary;
      ASSERT_TRUE(layout.primary_of_entry(number, entry, &primary).ok());
      EXPECT_EQ(primary, primary_key(layout, record(values)));
      before = entry;
    }
  }
}

TEST_F(LayoutTest, entries_of_equal_columns_share_what_is_unique_unless_one_is_null) {
  const Layout layout = this->layout(true);
  std::set<std::string> unique;
  size_t without_null = 0;
  for (const Values &values : rows(7)) {
    bool has_null = false;
    const std::string entry = this->entry(layout, values, &has_null);
    const std::string twin = this->entry(layout, {0, values.n, values.v}, &has_null);
    EXPECT_EQ(has_null, values.has_null());
    EXPECT_EQ(layout.entry_has_null(kBoth, entry), values.has_null());
    const size_t length = layout.unique_length(kBoth, entry);
    EXPECT_EQ(length == 0, values.has_null());
    if (values.has_null()) continue;
    EXPECT_EQ(entry.substr(0, length), twin.substr(0, length));
    EXPECT_NE(entry, twin);
    unique.insert(entry.substr(0, length));
    ++without_null;
  }
  EXPECT_EQ(unique.size(), without_null);
}

TEST_F(LayoutTest, an_entry_that_ends_within_its_columns_is_corruption) {
  const Layout layout = this->layout(true);
  bool has_null = false;
  const std::string entry = this->entry(layout, {7, 1, "a"}, &has_null);
  size_t user_length = 0;
  ASSERT_TRUE(layout.user_part_length(kBoth, entry, &user_length).ok());
  EXPECT_EQ(user_length, entry.size() - 4);
  for (size_t length = 0; length < user_length; length++) {
    std::string primary;
    const std::string cut = entry.substr(0, length);
    EXPECT_EQ(layout.primary_of_entry(kBoth, cut, &primary).code(), Code::kCorruption) << length;
    EXPECT_EQ(layout.unique_length(kBoth, cut), 0) << length;
  }
}

TEST_F(LayoutTest, a_table_without_a_primary_key_has_a_hidden_one) {
  const Layout with = layout(true), without = layout(false);
  EXPECT_FALSE(with.hidden_primary());
  EXPECT_TRUE(with.is_primary(kPrimary));
  EXPECT_FALSE(with.is_primary(kBoth));
  EXPECT_EQ(&with.primary_index(), &with.index(kPrimary));

  EXPECT_TRUE(without.hidden_primary());
  EXPECT_FALSE(without.is_primary(0));
  EXPECT_EQ(without.primary_index().start, with.primary_index().start);  // both have the first ordinal, 4
  const std::string key = primary_key(without, record({7, 1, "a"}));
  EXPECT_EQ(hidden_id_of(std::string_view(key).substr(codec::kKeyStartLength)), 42);
}

TEST_F(LayoutTest, a_table_that_moves_has_the_same_keys_elsewhere) {
  for (const bool has_primary : {true, false}) {
    const Layout layout = this->layout(has_primary, {.family = &family_, .prefix = 5});
    const std::string start = layout.primary_index().start;
    NamedFamily family(9);
    auto def = std::make_shared<catalog::TableDef>(layout.def());
    def->prefix = 0;
    const std::shared_ptr<const Layout> moved = layout.moved(def, &family);
    EXPECT_EQ(moved->family(), &family);
    EXPECT_EQ(moved->former(), nullptr) << "nothing is left at the place before the last";
    const Values values{7, 1, "a"};
    bool has_null = false;
    EXPECT_EQ(moved->moved_key(primary_key(layout, record(values))), primary_key(*moved, record(values)));
    EXPECT_EQ(moved->moved_key(entry(layout, values, &has_null)), entry(*moved, values, &has_null));
    EXPECT_LT(entry(*moved, values, &has_null), moved->index(moved->index_count() - 1).end);
    EXPECT_EQ(layout.primary_index().start, start);
  }
}

TEST_F(LayoutTest, knows_where_the_table_was_before_it_moved_by_itself) {
  EXPECT_EQ(layout(true).former(), nullptr);
  NamedFamily shared(1);
  const Layout layout = this->layout(true, {.family = &shared, .prefix = 5, .readable_from = 100});
  const Layout &former = *layout.former();
  EXPECT_EQ(former.family(), &shared);
  EXPECT_EQ(former.def().family_id, 1);
  EXPECT_EQ(former.def().readable_from.number, 100);
  const std::string key = primary_key(layout, record({7, 1, "a"}));
  EXPECT_EQ(former.moved_key(key), primary_key(former, record({7, 1, "a"})));
  EXPECT_NE(former.moved_key(key), key);
}

TEST_F(LayoutTest, the_catalog_keeps_what_rows_of_this_version_look_like) {
  std::vector<std::tuple<uint32_t, codec::ColumnKind, uint32_t, bool>> columns;
  for (const codec::PastColumn &column : Layout::past_columns(layout(true).row()))
    columns.emplace_back(column.id, column.kind, column.length, column.nullable);
  EXPECT_THAT(columns, ElementsAre(std::tuple(1, codec::ColumnKind::kFixed, 4, false),
                                   std::tuple(2, codec::ColumnKind::kFixed, 4, true),
                                   std::tuple(3, codec::ColumnKind::kVarchar, 30, true)));
}

}  // namespace
}  // namespace atoll::table
