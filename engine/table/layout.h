// How the rows and keys of one table are encoded: its catalog definition, made ready for the codec. A layout
// is immutable and shared by all handlers that have the table open. handler/layout.h makes it from a
// TABLE_SHARE.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "codec/key_codec.h"
#include "codec/row_codec.h"
#include "lsm/family.h"

namespace atoll::table {

// One index of the server's list of indexes, or the hidden primary key, which is not in that list.
struct IndexLayout {
  std::string name;
  uint16_t ordinal = 0;
  bool unique = false;
  // UNIQUE of unlimited length: the index holds a hash of the columns, and the server itself looks for rows
  // with the same hash before it writes a row.
  bool is_long_hash = false;
  size_t user_parts = 0;
  std::shared_ptr<const codec::KeyCodec> codec;
  std::vector<codec::KeyPart> parts;  // the index's own parts, without those of the primary key, which follow
  std::vector<unsigned>
      cut_fields;              // the index holds only a prefix of these fields, so reads take them from rows
  std::string start;           // table prefix and ordinal: every key of the index begins with these bytes
  std::string end;             // the first key after the index
  uint64_t readable_from = 0;  // as IndexDef::readable_from
};

// The layout of one table, by one definition of it. A changed definition gets a layout of its own; the
// old one lives as long as a statement uses it. Immutable, so any thread may use it.
class Layout {
 public:
  // The parts of a layout that come from the server's TABLE_SHARE and are not in the catalog.
  struct Columns {
    std::shared_ptr<const codec::RowCodec> row;
    std::vector<int> stored;           // see stored_column()
    std::vector<IndexLayout> indexes;  // in the server's order; the Layout sets their `start` and `end`
    int primary = -1;                  // number of the primary key in `indexes`; -1: it is the hidden one
  };
  // Requires: `columns` and the definition describe the same columns and indexes.
  Layout(catalog::TablePtr def, lsm::Family *family, Columns columns);

  const catalog::TableDef &def() const { return *def_; }
  const catalog::TablePtr &def_ptr() const { return def_; }
  lsm::Family *family() const { return family_; }
  const codec::RowCodec &row() const { return *row_; }

  // Returns the position among the stored columns of the server's field number `field_index`; -1: the field
  // is a virtual column that is not stored.
  int stored_column(size_t field_index) const { return stored_[field_index]; }

  bool hidden_primary() const { return primary_ < 0; }
  int primary() const { return primary_; }
  bool is_primary(size_t index) const { return static_cast<int>(index) == primary_; }
  size_t index_count() const { return indexes_.size(); }
  const IndexLayout &index(size_t number) const { return indexes_[number]; }
  const IndexLayout &primary_index() const { return primary_ < 0 ? hidden_ : indexes_[primary_]; }

  // *out: the full primary key of `record`. `hidden_id` is used only when the table has no primary key.
  void primary_key(const uint8_t *record, uint64_t hidden_id, std::string *out) const;
  // *key, *value: the full key and the value of the record's entry in secondary index `number`; `value` may
  // be nullptr. *has_null: whether one of the index's own columns is NULL. `primary_key`: the full key of the
  // row.
  void secondary_entry(size_t number, const uint8_t *record, std::string_view primary_key, std::string *key,
                       std::string *value, bool *has_null) const;
  // *out: the primary key of the row to which a secondary entry belongs. Errors: kCorruption.
  Status primary_of_entry(size_t number, std::string_view entry_key, std::string *out) const;
  // *length: the number of bytes that a secondary key has without the primary key at its end. Errors:
  // kCorruption.
  Status user_part_length(size_t number, std::string_view entry_key, size_t *length) const;

  // True when one of the user's parts of a secondary key is NULL.
  bool entry_has_null(size_t number, std::string_view entry_key) const;

  // The number of leading bytes of the key that must be unique in a unique index. 0: one of the columns is
  // NULL, so the key need not be unique; or the key is damaged.
  size_t unique_length(size_t number, std::string_view entry_key) const;

  // Returns the layout of the same table in another family or under another prefix.
  std::shared_ptr<const Layout> moved(catalog::TablePtr def, lsm::Family *family) const;
  // `key` belongs to a row or an entry of the same table in another family or under another prefix. Returns
  // the key that this row or entry has here.
  std::string moved_key(std::string_view key) const;

  // The layout of the old rows in the shared family, from which the mover has moved the table, for reads at
  // snapshots that are older than the move. nullptr: the mover has not moved the table since the server
  // started, or no rows are left.
  const std::shared_ptr<const Layout> &former() const { return former_; }

  // The columns of a row version in the form in which the catalog stores them, for CREATE and instant ALTER.
  static std::vector<codec::PastColumn> past_columns(const codec::RowCodec &row);

 private:
  void build_hidden_primary();
  void set_starts(uint32_t prefix);
  void build_former();

  catalog::TablePtr def_;
  lsm::Family *family_ = nullptr;
  std::shared_ptr<const Layout> former_;
  std::shared_ptr<const codec::RowCodec> row_;
  std::vector<int> stored_;
  std::vector<IndexLayout> indexes_;
  int primary_ = -1;
  IndexLayout hidden_;
};

// The hidden primary key is 8 bytes, big-endian.
void append_hidden_id(uint64_t id, std::string *out);
uint64_t hidden_id_of(std::string_view eight_bytes);

inline constexpr size_t kHiddenIdLength = 8;

// *key: the first or the last key of the index among committed entries; empty: the index has no entry.
Status outermost_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key);

}  // namespace atoll::table
