// Names, kinds of indexes and labels: what the server offers for them under other names, or with other types,
// in 11.8.
#pragma once

#include "handler/server.h"

#include <lock.h>

#include <string>
#include <string_view>

namespace atoll::handler {

// The schema of which handlerton::discover_table_names is asked.
#if MYSQL_VERSION_ID < 110000
using DiscoveredSchema = LEX_CSTRING;
#else
using DiscoveredSchema = const LEX_CSTRING;
#endif

// A name that the server keeps as one or the other, according to the series.
inline std::string_view view_of(const char *name) { return name; }
inline std::string_view view_of(const LEX_CSTRING &name) { return {name.str, name.length}; }

// Whether two names of columns or indexes are the same for the server.
inline bool is_same_name(const LEX_CSTRING &a, const LEX_CSTRING &b) {
#if MYSQL_VERSION_ID < 110000
  return lex_string_cmp(system_charset_info, &a, &b) == 0;
#else
  return Lex_ident_ci::streq(a, b);
#endif
}

inline std::string in_lower_case(CHARSET_INFO *charset, std::string name) {
#if MYSQL_VERSION_ID < 110000
  name.resize(name.size() * charset->casedn_multiply());
  name.resize(my_casedn_str(charset, name.data()));
  return name;
#else
  std::string lower(name.size() * charset->casedn_multiply() + 1, '\0');
  lower.resize(charset->casedn_z(name.data(), name.size(), lower.data(), lower.size()));
  return lower;
#endif
}

// Whether the server refuses the name for a database. May write it in lower case.
inline bool is_bad_schema_name(std::string *name) {
#if MYSQL_VERSION_ID < 110000
  LEX_STRING text{name->data(), name->size()};
  return check_db_name(&text);
#else
  return Lex_ident_db::check_name({name->data(), name->size()});
#endif
}

// Whether the server refuses the name for a table.
inline bool is_bad_table_name(const std::string &name) {
#if MYSQL_VERSION_ID < 110000
  return check_table_name(name.data(), name.size(), /*check_for_path_chars=*/false);
#else
  return Lex_ident_table::check_name({name.data(), name.size()}, /*check_for_path_chars=*/false);
#endif
}

// Locks the name of a database until the statement ends. Returns true when that failed.
inline bool lock_schema_until_end(THD *thd, const std::string &name) {
#if MYSQL_VERSION_ID < 110000
  return lock_schema_name(thd, name.c_str());
#else
  return lock_schema_name(thd, Lex_ident_db_normalized(name.data(), name.size()));
#endif
}

// 10.11 notes the kind of such an index in its flags, too.
inline bool is_fulltext(const KEY &key) {
#if MYSQL_VERSION_ID < 110000
  if (key.flags & HA_FULLTEXT) return true;
#endif
  return key.algorithm == HA_KEY_ALG_FULLTEXT;
}

inline bool is_spatial(const KEY &key) {
#if MYSQL_VERSION_ID < 110000
  return key.flags & HA_SPATIAL;
#else
  return key.algorithm == HA_KEY_ALG_RTREE;
#endif
}

// The labels of a column; nullptr: it is no ENUM or SET.
inline const TYPELIB *labels_of(const Field &field) {
#if MYSQL_VERSION_ID < 110000
  return field.get_typelib();
#else
  const bool has_labels = field.real_type() == MYSQL_TYPE_ENUM || field.real_type() == MYSQL_TYPE_SET;
  return has_labels ? static_cast<const Field_enum &>(field).typelib() : nullptr;
#endif
}

// Whether the table has an index that the server itself keeps, in a further table of the engine: one for
// vectors.
inline bool has_index_of_server(const TABLE_SHARE *share) {
#if MYSQL_VERSION_ID < 110000
  return false;
#else
  return share->total_keys != share->keys;
#endif
}

}  // namespace atoll::handler
