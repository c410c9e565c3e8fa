// The settings of the engine as plain values. The server's system variables (plugin/sysvars.h) are one source
// of them; a test fills them in itself.
#pragma once

#include <cstdint>
#include <string>

#include "bridge/objstore.h"
#include "lsm/family.h"

namespace atoll::engine {

// What is read once, when the engine opens.
struct StartSettings {
  std::string url, endpoint, region, access_key, secret_key, session_token;
  std::string ca_file, addressing, sse, sse_kms_key_id;
  std::string base_dir;          // <datadir>/#atoll: everything Atoll keeps on local disk
  bool is_local_bucket = false;  // file://
  bool take_over = false;
  std::string mask_file;  // of SQL statements that run in a clone before anybody else may open its tables

  // The name of the bucket's directory if it stands beside the databases, in the data directory; else empty.
  std::string bucket_beside_databases() const;
};

// What may change while the engine runs. The types are those of the server's variables, which write here when
// somebody sets them.
// Threads: read by all without a lock. Each value stands alone, and a reader may see the former one for a
// moment.
struct Settings {
  unsigned long durability = ATOLL_DURABILITY_LOCAL;
  unsigned int lag_ms_max = 2000;
  unsigned long long lag_bytes_max = 64ULL << 20;
  unsigned int lag_wait_timeout_s = 300;
  unsigned int request_timeout_s = 30;
  unsigned int flush_log_at_trx_commit = 1;
  unsigned long long cache_bytes = 10ULL << 30;
  unsigned long long backlog_bytes_max = 1ULL << 30;
  unsigned long long block_cache_bytes = 128ULL << 20;
  unsigned long long transaction_memory_bytes = 64ULL << 20;
  // The most bytes of a table or partition in the family that small tables share; 0: without limit.
  unsigned long long shared_table_bytes_max = 4ULL << 20;
  unsigned int history_retention_s = 0;
  unsigned long long history_bytes_max = 0;
  unsigned long compression_algorithm = static_cast<unsigned long>(lsm::Algorithm::kZstd);
  unsigned int compression_level = 0;  // 0: the algorithm's default
  char is_read_only = 0;

  // Does a commit sync the local log?
  bool flush_at_commit() const { return flush_log_at_trx_commit == 1; }
  // The compression of tables that name none.
  lsm::Compression default_compression() const;
  // Bytes that one ALTER, CREATE ... SELECT or index build may sort in; follows transaction_memory_bytes.
  uint64_t sort_memory_bytes() const;
};

// What a connection may set for its own statements.
struct StatementSettings {
  unsigned long lock_wait_timeout_s = 50;  // 0: do not wait
  bool snapshot_isolation = false;
  bool ignores_foreign_keys = false;
  unsigned int scan_threads = 1;
};

}  // namespace atoll::engine
