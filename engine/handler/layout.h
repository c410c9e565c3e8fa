// How one table's rows and keys are encoded: a TABLE_SHARE and its catalog definition, made ready for the
// codec. Immutable; shared by all open handlers of the table.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "codec/key_codec.h"
#include "codec/row_codec.h"
#include "lsm/database.h"

struct TABLE;

namespace atoll::handler {

// One index, in the server's numbering (the hidden primary key stands apart).
struct IndexLayout {
  std::string name;
  uint16_t ordinal = 0;
  bool unique = false;
  size_t user_parts = 0;
  std::shared_ptr<const codec::KeyCodec> codec;
  std::vector<codec::KeyPart> parts;  // the user's parts, as given to the codec
  std::vector<uint> cut_fields;  // fields of which entries hold a prefix only, so that no entry gives them
  std::string start;             // prefix | ordinal: every key of the index begins so
  std::string end;               // the first key after the index
  uint64_t readable_from = 0;    // as IndexDef::readable_from
};

class Layout {
 public:
  // `table` gives the indexes as an engine sees them (long unique keys by their hash column).
  // Errors: kInvalid when table and definition do not agree (the definition changed: rediscover).
  static Status build(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                      std::shared_ptr<const Layout> *out);

  const catalog::TableDef &def() const { return *def_; }
  const catalog::TablePtr &def_ptr() const { return def_; }
  lsm::Family *family() const { return family_; }
  const codec::RowCodec &row() const { return *row_; }

  // Index of the stored column of field `field_index`, -1 for a virtual column.
  int stored_column(size_t field_index) const { return stored_[field_index]; }

  bool hidden_primary() const { return primary_ < 0; }
  int primary() const { return primary_; }
  bool is_primary(size_t index) const { return static_cast<int>(index) == primary_; }
  size_t index_count() const { return indexes_.size(); }
  const IndexLayout &index(size_t number) const { return indexes_[number]; }
  const IndexLayout &primary_index() const { return primary_ < 0 ? hidden_ : indexes_[primary_]; }

  // The full primary key of `record`; `hidden_id` is used when the table has no primary key.
  void primary_key(const uint8_t *record, uint64_t hidden_id, std::string *out) const;
  // The full key and the value of an entry of secondary index `number`; `primary_key` is the row's.
  void secondary_entry(size_t number, const uint8_t *record, std::string_view primary_key, std::string *key,
                       std::string *value, bool *has_null) const;
  // The primary key a secondary entry points to. Errors: kCorruption.
  Status primary_of_entry(size_t number, std::string_view entry_key, std::string *out) const;
  // The part of a secondary key that is unique in a unique index.
  Status user_part_length(size_t number, std::string_view entry_key, size_t *length) const;

  // True when one of the user's parts of a secondary key is NULL.
  bool entry_has_null(size_t number, std::string_view entry_key) const;

  // Bytes of a unique index's key that must be unique; 0 when a NULL exempts it.
  size_t unique_length(size_t number, std::string_view entry_key) const;

  // The same table in another family or under another prefix.
  std::shared_ptr<const Layout> moved(catalog::TablePtr def, lsm::Family *family) const;
  // The key that this layout has for what stands under `key` in the same table elsewhere.
  std::string moved_key(std::string_view key) const;

  // Where the table was until it moved by itself: for snapshots that are older than the move. nullptr: it did
  // not move since the server started, or nothing is left there.
  const std::shared_ptr<const Layout> &former() const { return former_; }

  // Column layout as the catalog keeps it, for CREATE and instant ALTER.
  static std::vector<codec::PastColumn> past_columns(const codec::RowCodec &row);

 private:
  Status build_indexes(const TABLE *table);
  void find_cut_fields(const TABLE *table, uint number, IndexLayout *index) const;
  void build_hidden_primary();

  void set_starts(uint32_t prefix);
  void build_former();

  catalog::TablePtr def_;
  lsm::Family *family_ = nullptr;
  std::shared_ptr<const Layout> former_;
  std::shared_ptr<const codec::RowCodec> row_;
  std::vector<int> stored_;
  std::vector<IndexLayout> indexes_;
  IndexLayout hidden_;
  int primary_ = -1;
};

// Big-endian 8 bytes: the hidden primary key.
void append_hidden_id(uint64_t id, std::string *out);
uint64_t hidden_id_of(std::string_view eight_bytes);

inline constexpr size_t kHiddenIdLength = 8;

// The first or last key of an index; empty: it has none. What is not committed is not seen.
Status outermost_key(const Layout &layout, const IndexLayout &index, rocksdb::DB *db, bool last,
                     std::string *key);

// The highest number of a row that is there, 0: none. What is not committed is not seen.
Status last_hidden_id(const Layout &layout, rocksdb::DB *db, uint64_t *id);

}  // namespace atoll::handler
