// RocksDB's own databases, for this folder and tests alone; `make check` looks (sealed-lsm).
#pragma once

#include "lsm/rows.h"

namespace atoll::lsm {

struct Raw {
  static rocksdb::DB *of(const Family *family) { return family->base(); }
  // `database` points to one, in whatever way.
  template <typename Pointer>
  static rocksdb::TransactionDB *of(Pointer &&database, Side side) {
    return database->db(side);
  }
  // Below the transaction layer: locks are Atoll's own, so RocksDB's way through it adds nothing.
  template <typename Pointer>
  static rocksdb::DB *below(Pointer &&database, Side side) {
    return database->db(side)->GetBaseDB();
  }
};

}  // namespace atoll::lsm
