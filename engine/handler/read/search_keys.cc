// See search_keys.h.
#include "handler/read/search_keys.h"

#include <sql_class.h>

namespace atoll::handler {

void SearchKeys::start(uint index, const uchar *key, key_part_map key_parts, std::string *out,
                       size_t *parts) const {
  TABLE *table = file_.get_table();
  KEY *key_info = &table->key_info[index];
  const IndexLayout &layout = table_.layout().index(index);
  if (key_parts == HA_WHOLE_KEY) key_parts = make_prev_keypart_map(key_info->user_defined_key_parts);
  const uint length = calculate_key_len(table, index, key, key_parts);
  // The bounds of a LIKE range may have more characters than the column. They are cut without a warning.
  const Check_level_instant_set quietly(table->in_use, CHECK_FIELD_IGNORE);
  key_restore(record_.data(), key, key_info, length);
  size_t count = 0;
  for (key_part_map map = key_parts; map & 1; map >>= 1) count++;
  *parts = count <= layout.user_parts ? count : layout.user_parts + primary_parts_given(*key_info, count);
  out->assign(layout.start);
  layout.codec->append_parts(record_.data(), *parts, out, nullptr);
}

// Counts the leading columns of the primary key that are among the first `count` columns of a search key. The
// server extends an index only by the primary key columns that the index lacks, but our entries end with all
// columns of the primary key.
size_t SearchKeys::primary_parts_given(const KEY &key, size_t count) const {
  if (table_.layout().hidden_primary()) return 0;
  const TABLE *table = file_.get_table();
  const KEY &primary = table->key_info[table->s->primary_key];
  size_t given = 0;
  for (; given < primary.user_defined_key_parts; given++) {
    bool found = false;
    for (size_t i = 0; i < count && !found; i++)
      found = key.key_part[i].fieldnr == primary.key_part[given].fieldnr;
    if (!found) break;
  }
  return given;
}

table::Bounds SearchKeys::bounds(uint index, const key_range *from, const key_range *to,
                                 size_t *begin_parts) const {
  table::Bounds bounds{table_.layout().index(index).start, table_.layout().index(index).end};
  *begin_parts = 0;
  if (from != nullptr) {
    start(index, from->key, from->keypart_map, &bounds.lower, begin_parts);
    if (from->flag == HA_READ_AFTER_KEY) bounds.lower = codec::key_after_prefix(bounds.lower);
  }
  if (to != nullptr) {
    size_t parts = 0;
    start(index, to->key, to->keypart_map, &bounds.upper, &parts);
    if (to->flag != HA_READ_BEFORE_KEY) bounds.upper = codec::key_after_prefix(bounds.upper);
  }
  return bounds;
}

std::string SearchKeys::primary_key(const uchar *reference) const {
  if (table_.layout().hidden_primary())
    return table_.layout().primary_index().start +
           std::string(reinterpret_cast<const char *>(reference), kHiddenIdLength);
  KEY *primary = &file_.get_table()->key_info[file_.get_table()->s->primary_key];
  key_restore(record_.data(), reference, primary, primary->key_length);
  std::string key;
  table_.layout().primary_key(record_.data(), 0, &key);
  return key;
}

}  // namespace atoll::handler
