// Access to RocksDB's own database objects. Only this folder and tests may use it; the rule sealed-lsm of
// `make check` enforces that.
#pragma once

#include "lsm/rows.h"

namespace atoll::lsm {

struct Raw {
  static rocksdb::DB *of(const Family *family) { return family->base(); }
  // `database`: a plain or smart pointer to a database, or an object such as TestDatabase that acts as one.
  template <typename Pointer>
  static rocksdb::TransactionDB *of(Pointer &&database, Side side) {
    return database->db(side);
  }
  // Returns the database below RocksDB's transaction layer, which Atoll does not need for plain reads and
  // writes, because it has locks of its own.
  template <typename Pointer>
  static rocksdb::DB *below(Pointer &&database, Side side) {
    return database->db(side)->GetBaseDB();
  }
};

}  // namespace atoll::lsm
