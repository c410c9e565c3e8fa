// Goal:   a row in pieces is read as it was written, changes and goes with all its pieces, and is corruption
//         when a piece is missing or is another one.
// Method: a table with one BLOB; sizes around the limit and around whole numbers of pieces; pieces are
//         changed behind the table's back. (CHECK TABLE finds a piece too many.)
#include "table/write/large_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/stored_table.h"

namespace atoll::table {
namespace {

using codec::kLargeRowBytes;
using codec::kRowPieceBytes;

// t (id PRIMARY KEY, body LONGBLOB)
class BlobTable {
 public:
  BlobTable() {
    id_ = table_.add(codec::testing::fixed(4), false);
    body_ = table_.add(codec::testing::blob(4), false);
  }

  std::shared_ptr<const Layout> layout(lsm::Family *family) const {
    IndexLayout primary;
    primary.name = "PRIMARY";
    primary.ordinal = 1;
    primary.unique = true;
    primary.user_parts = 1;
    codec::KeyPart part{.kind = codec::KeyKind::kUnsigned, .source = id_};
    part.never_null = true;
    primary.parts = {part};
    primary.codec = std::make_shared<const codec::KeyCodec>(primary.ordinal, primary.parts, 1);
    Layout::Columns columns;
    columns.row = std::make_shared<codec::RowCodec>(1, table_.columns());
    columns.stored = {0, 1};
    columns.primary = 0;
    columns.indexes = {std::move(primary)};
    auto def = std::make_shared<catalog::TableDef>();
    def->prefix = 7;
    return std::make_shared<const Layout>(std::move(def), family, std::move(columns));
  }
  codec::testing::Record record(uint32_t id, std::string_view body) const {
    std::string bytes(4, '\0');
    store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), id, 4);
    codec::testing::Record record(table_);
    record.set(id_, bytes);
    record.set(body_, body);
    return record;
  }
  std::string_view body(const uint8_t *record) const { return codec::column_bytes(body_, record); }
  size_t record_length() const { return table_.record_length(); }

 private:
  codec::testing::Table table_;
  codec::Column id_, body_;
};

std::string text(size_t bytes, char first) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; i++) text[i] = static_cast<char>(first + i * 7 % 251);
  return text;
}

class LargeRowsTest : public StoredTableTest<BlobTable> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    begin();
  }

  void begin() {
    session_.reset();
    session_ = std::make_unique<PlainSession>(layout_, table_.record_length(), manager_.get());
  }
  void commit() {
    session_->cursor.close();
    ASSERT_ATOLL_OK(session_->transaction()->commit(false));
    begin();
  }
  Status insert(uint32_t id, std::string_view body) {
    Status status = session_->writer.insert(table_.record(id, body).data(), 0);
    session_->writer.end_statement();
    return status;
  }
  // Reads the row with a lock, as UPDATE and DELETE do.
  Status lock(uint32_t id) {
    ReadMode &mode = *session_->cursor.table().mutable_mode();
    mode = {.lock = RowLock::kExclusive, .may_change = true};
    RowCursor::Found found = RowCursor::Found::kNone;
    session_->cursor.begin_index(0);
    ATOLL_RETURN_IF_ERROR(session_->cursor.get(key(id), false, session_->record(), &found));
    mode = {};
    return found == RowCursor::Found::kRow ? Status::Ok() : Status(Code::kNotFound, "");
  }
  Status update(uint32_t id, std::string_view body) {
    ATOLL_RETURN_IF_ERROR(lock(id));
    const std::string before(table_.body(session_->record()));
    Status status =
        session_->writer.update(table_.record(id, before).data(), table_.record(id, body).data(), 0);
    session_->writer.end_statement();
    return status;
  }
  Status remove(uint32_t id) {
    ATOLL_RETURN_IF_ERROR(lock(id));
    Status status = session_->writer.remove(session_->record(), 0);
    session_->writer.end_statement();
    return status;
  }
  // nullopt: there is no such row. Errors are in status_.
  std::optional<std::string> read(uint32_t id) {
    RowCursor::Found found = RowCursor::Found::kNone;
    session_->cursor.begin_index(0);
    status_ = session_->cursor.get(key(id), false, session_->record(), &found);
    if (!status_.ok() || found != RowCursor::Found::kRow) return std::nullopt;
    return std::string(table_.body(session_->record()));
  }
  // How many pieces are committed.
  uint64_t pieces() {
    uint64_t count = 0;
    EXPECT_TRUE(count_row_pieces(*layout_, UINT64_MAX, &count).ok());
    return count;
  }
  std::string key(uint32_t id) const {
    std::string key;
    layout_->primary_key(table_.record(id, "").data(), 0, &key);
    return key;
  }
  std::string piece_key(uint32_t id, uint64_t number) const {
    return codec::row_piece_key(codec::row_pieces_start(key(id)), number);
  }

  std::unique_ptr<PlainSession> session_;
  Status status_;
};

TEST_F(LargeRowsTest, rows_of_any_size_are_read_as_they_were_written) {
  const size_t sizes[] = {0,
                          kRowPieceBytes,
                          kLargeRowBytes - 100,
                          kLargeRowBytes,
                          kLargeRowBytes + 1,
                          17 * kRowPieceBytes,
                          40 * kRowPieceBytes + 12345};
  uint32_t id = 0;
  for (const size_t size : sizes) ASSERT_ATOLL_OK(insert(id++, text(size, 'a')));
  for (int round = 0; round < 2; round++) {  // own writes, then committed ones
    id = 0;
    for (const size_t size : sizes) EXPECT_TRUE(read(id++) == text(size, 'a')) << size << status_.message();
    if (round == 0) commit();
  }
  EXPECT_GT(pieces(), 40);
}

TEST_F(LargeRowsTest, a_change_leaves_no_piece_of_the_row_before) {
  const size_t few = kLargeRowBytes + 1, many = 2 * kLargeRowBytes;
  ASSERT_ATOLL_OK(insert(1, text(many, 'a')));
  commit();
  const uint64_t all = pieces();
  ASSERT_ATOLL_OK(update(1, text(few, 'b')));
  commit();
  EXPECT_LT(pieces(), all);
  EXPECT_TRUE(read(1) == text(few, 'b'));
  ASSERT_ATOLL_OK(update(1, "small"));
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), "small");
  ASSERT_ATOLL_OK(update(1, text(many, 'c')));
  commit();
  EXPECT_EQ(pieces(), all);
  EXPECT_TRUE(read(1) == text(many, 'c'));
  ASSERT_ATOLL_OK(remove(1));
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), std::nullopt);
}

TEST_F(LargeRowsTest, what_is_rolled_back_leaves_the_row_as_it_was) {
  ASSERT_ATOLL_OK(insert(1, text(2 * kLargeRowBytes, 'a')));
  commit();
  const uint64_t all = pieces();
  ASSERT_ATOLL_OK(update(1, text(kLargeRowBytes + 1, 'b')));
  ASSERT_ATOLL_OK(insert(2, text(kLargeRowBytes + 1, 'c')));
  session_->cursor.close();
  session_->transaction()->rollback();
  begin();
  EXPECT_EQ(pieces(), all);
  EXPECT_TRUE(read(1) == text(2 * kLargeRowBytes, 'a'));
  EXPECT_EQ(read(2), std::nullopt);
}

TEST_F(LargeRowsTest, a_snapshot_shows_the_pieces_of_its_time) {
  ASSERT_ATOLL_OK(insert(1, text(2 * kLargeRowBytes, 'a')));
  commit();
  PlainSession other(layout_, table_.record_length(), manager_.get());
  other.transaction()->make_snapshot();
  ASSERT_ATOLL_OK(update(1, text(2 * kLargeRowBytes, 'b')));
  commit();
  RowCursor::Found found = RowCursor::Found::kNone;
  other.cursor.begin_index(0);
  ASSERT_ATOLL_OK(other.cursor.get(key(1), false, other.record(), &found));
  ASSERT_EQ(found, RowCursor::Found::kRow);
  EXPECT_TRUE(table_.body(other.record()) == text(2 * kLargeRowBytes, 'a'));
  EXPECT_TRUE(read(1) == text(2 * kLargeRowBytes, 'b'));
}

TEST_F(LargeRowsTest, pieces_that_are_not_the_rows_are_corruption) {
  for (uint32_t id = 1; id <= 2; id++) ASSERT_ATOLL_OK(insert(id, text(kLargeRowBytes + 1, 'a')));
  commit();
  lsm::Family *family = layout_->family();
  ASSERT_TRUE(lsm::Raw::of(family)->Delete(rocksdb::WriteOptions(), family->handle(), piece_key(1, 2)).ok());
  ASSERT_ATOLL_OK(database_.put(family, piece_key(2, 2), text(kRowPieceBytes, 'z')));
  for (uint32_t id = 1; id <= 2; id++) {
    EXPECT_FALSE(read(id));
    EXPECT_EQ(status_.code(), Code::kCorruption) << id;
  }
}

TEST_F(LargeRowsTest, a_duplicate_writes_no_piece) {
  ASSERT_ATOLL_OK(insert(1, "first"));
  commit();
  EXPECT_EQ(insert(1, text(kLargeRowBytes + 1, 'a')).code(), Code::kDuplicate);
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), "first");
}

}  // namespace
}  // namespace atoll::table
