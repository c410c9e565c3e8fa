// The settings of the engine as plain values. In the server, they come from system variables
// (plugin/sysvars.h); a test sets them itself.
#pragma once

#include <cstdint>
#include <string>

#include "bridge/objstore.h"
#include "lsm/family.h"

namespace atoll::engine {

// Settings that are read only once, when the engine opens.
struct StartSettings {
  std::string url, endpoint, region, access_key, secret_key, session_token;
  std::string ca_file, addressing, sse, sse_kms_key_id;
  std::string base_dir;          // <datadir>/#atoll: everything Atoll keeps on local disk
  bool is_local_bucket = false;  // the bucket is a directory (file://), not an S3 service
  bool take_over = false;
  bool is_reader = false;  // the server shows what another server writes into the bucket (views.h)
  std::string mask_file;   // file of SQL statements that run in a clone before any user can open its tables

  // The name of the bucket's directory if the bucket is a directory in the data directory, beside those of
  // the databases; otherwise empty.
  std::string bucket_beside_databases() const;
};

// Settings that may change while the engine runs. They have the types of the server's system variables, and
// SET GLOBAL writes into this object. Threads: any thread reads without a lock. Each value is independent of
// the others, and a reader may see the old value for a moment.
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
  // A table or partition that takes more bytes than this in the family that small tables share is moved out
  // of it; 0: no limit.
  unsigned long long shared_table_bytes_max = 4ULL << 20;
  unsigned int history_retention_s = 0;
  unsigned long long history_bytes_max = 0;
  unsigned long compression_algorithm = static_cast<unsigned long>(lsm::Algorithm::kZstd);
  unsigned int compression_level = 0;  // 0: the algorithm's default
  char is_read_only = 0;

  // Whether each commit syncs the local log, so that commits survive a crash of the machine.
  bool flush_at_commit() const { return flush_log_at_trx_commit == 1; }
  // The compression of tables that are created without the COMPRESSION option.
  lsm::Compression default_compression() const;
  // The most bytes of memory that one ALTER, CREATE ... SELECT or index build uses for sorting:
  // transaction_memory_bytes, or 1/32 of the process's memory if that is less, but at least 16 MiB and at
  // most 128 MiB.
  uint64_t sort_memory_bytes() const;
};

// Settings that a connection may change for its own statements.
struct StatementSettings {
  unsigned long lock_wait_timeout_s = 50;  // 0: a lock that is not free is an error at once
  bool snapshot_isolation = false;
  bool ignores_foreign_keys = false;
  unsigned int scan_threads = 1;
};

}  // namespace atoll::engine
