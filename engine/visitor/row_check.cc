// See row_check.h.

#include "visitor/row_check.h"

#include <string>
#include <string_view>

#include "codec/large_row.h"
#include "lsm/load/crc32c.h"
#include "visitor/stored_entries.h"

namespace atoll::visitor {
namespace {

// Reads the pieces of a row that is too large for one value, and checks the checksum of the whole row.
// Errors: kCorruption, and as a read.
Status read_pieces(lsm::PastDatabase *state, const catalog::TableDef &table, std::string_view key,
                   std::string_view stored) {
  codec::LargeRow row;
  ATOLL_RETURN_IF_ERROR(codec::decode(stored, &row));
  std::string whole;
  codec::RowJoiner joiner(row, key, &whole);
  StoredEntries pieces;
  ATOLL_RETURN_IF_ERROR(pieces.open(state, table, {table.family_id, joiner.start(), joiner.end()}));
  for (; pieces.valid(); pieces.next()) ATOLL_RETURN_IF_ERROR(joiner.add(pieces.whole_key(), pieces.value()));
  ATOLL_RETURN_IF_ERROR(pieces.status());
  lsm::Crc32c checksum;
  checksum.add(whole);
  return joiner.finish(checksum.finish());
}

Status count_entries(lsm::PastDatabase *state, const catalog::TableDef &table, const catalog::IndexDef &index,
                     uint64_t *count) {
  StoredEntries entries;
  ATOLL_RETURN_IF_ERROR(entries.open(state, table, index_range(table, index.ordinal)));
  const bool is_primary = &index == &table.indexes.front();
  for (*count = 0; entries.valid(); entries.next()) {
    if (++*count % kKeysPerQuestion == 0) ATOLL_RETURN_IF_ERROR(check_interrupt());
    if (!is_primary || !codec::is_large_row(entries.value())) continue;
    ATOLL_RETURN_IF_ERROR(read_pieces(state, table, entries.whole_key(), entries.value()));
  }
  return entries.status();
}

// Names the index with its columns, as far as the catalog knows them: entries that earlier versions have
// written have no description.
std::string text_of(const catalog::IndexDef &index, const catalog::TableDescription &description) {
  if (index.name.empty()) return "the hidden primary key";
  const int key = description.find_key(index.name);
  if (key < 0) return "the index `" + index.name + "`";
  return "the index `" + index.name + "` " +
         catalog::text_of(description.keys[static_cast<size_t>(key)], description);
}

}  // namespace

Status read_table(lsm::PastDatabase *state, const catalog::TableDef &table, StoredTable *out) {
  *out = {};
  for (const catalog::IndexDef &index : table.indexes) {
    if (index.building) continue;
    const bool is_primary = &index == &table.indexes.front();
    uint64_t count = 0;
    const Status status = count_entries(state, table, index, &count);
    const std::string name = text_of(index, table.description);
    if (status.code() == Code::kCorruption) out->problem = name + ": " + status.message();
    if (status.code() == Code::kCorruption) return Status::Ok();
    ATOLL_RETURN_IF_ERROR(status);
    (is_primary ? out->rows : out->entries) += count;
    if (!is_primary && count != out->rows && out->problem.empty())
      out->problem =
          name + " has " + std::to_string(count) + " entries for " + std::to_string(out->rows) + " rows";
  }
  return Status::Ok();
}

}  // namespace atoll::visitor
