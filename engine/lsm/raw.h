// RocksDB's own databases, for this folder and tests alone; `make check` looks (sealed-lsm).
#pragma once

#include "lsm/rows.h"

namespace atoll::lsm {

struct Raw {
  static rocksdb::DB *of(const Family *family) { return family->base(); }
  // `database` is a pointer of any kind to a database.
  template <typename Pointer>
  static rocksdb::TransactionDB *of(Pointer &&database, Side side) {
    return database->db(side);
  }
  // The database below RocksDB's transaction layer, which would add nothing: locks are Atoll's own.
  template <typename Pointer>
  static rocksdb::DB *below(Pointer &&database, Side side) {
    return database->db(side)->GetBaseDB();
  }
};

}  // namespace atoll::lsm
