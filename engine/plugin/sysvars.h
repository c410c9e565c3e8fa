// System variables (atoll_...): what they are at start, and what may change while running.
// Documentation for users: docs/configuration.md, one row per variable.
#pragma once

#include <cstdint>
#include <string>

#include "lsm/database.h"

struct st_mysql_sys_var;

namespace atoll::plugin {

// The variables as they stood when the plugin was initialised.
struct Settings {
  std::string url, endpoint, region, access_key, secret_key, session_token;
  std::string ca_file, addressing, sse, sse_kms_key_id;
  std::string base_dir;          // <datadir>/#atoll: everything Atoll keeps on local disk
  bool is_local_bucket = false;  // file://
  bool take_over = false;
};

st_mysql_sys_var **system_variables();

// Takes the start values: completes defaults that depend on the data directory and replaces the secrets in
// what SHOW VARIABLES shows. Called once, from plugin init.
Settings take_settings();

void forget_secrets(Settings *settings);

// The name of the bucket's directory if it stands beside the databases, in the data directory; else empty.
std::string bucket_beside_databases(const Settings &settings);

// Current values, in the units of the layers below.
uint64_t cache_bytes();
uint64_t backlog_bytes_max();
uint64_t block_cache_bytes();
uint64_t transaction_memory_bytes();
// Of one ALTER, CREATE ... SELECT or index build; follows atoll_transaction_memory.
uint64_t sort_memory_bytes();
uint8_t durability();  // ATOLL_DURABILITY_*
uint32_t lag_ms_max();
uint64_t lag_bytes_max();
uint32_t lag_wait_timeout_ms();
uint32_t request_timeout_ms();
// Of a table or partition, in the family that small tables share; 0: without limit.
uint64_t shared_table_bytes_max();
bool is_read_only();
std::string snapshot_schedule();  // atoll_snapshot_schedule

}  // namespace atoll::plugin
