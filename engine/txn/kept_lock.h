// Row locks that a prepared transaction keeps over a restart, although it writes no row under their keys.
//
// The record of the prepared transaction in RocksDB's WAL is the only thing that outlives the server together
// with the transaction. So for each such lock, the record deletes a key that never exists, in the default
// family: "lock/", the number of the lock's family (4 bytes, little-endian), the key of the lock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "txn/locks/lock_table.h"

namespace atoll::txn {

inline constexpr std::string_view kKeptLockPrefix = "lock/";

// Returns the key to delete, for a lock on `lock`.
inline std::string kept_lock_key(const LockKey &lock) {
  std::string key(kKeptLockPrefix);
  key.append(sizeof(lock.family_id), 0);
  store_le(&key[kKeptLockPrefix.size()], lock.family_id);
  return key.append(lock.key);
}

// *lock: the lock that the deletion of `key` in the default family keeps; its key points into `key`. Returns
// false if that deletion keeps no lock.
inline bool read_kept_lock(std::string_view key, LockKey *lock) {
  const size_t head = kKeptLockPrefix.size() + sizeof(lock->family_id);
  if (!key.starts_with(kKeptLockPrefix) || key.size() < head) return false;
  *lock = {load_le<uint32_t>(&key[kKeptLockPrefix.size()]), key.substr(head)};
  return true;
}

}  // namespace atoll::txn
