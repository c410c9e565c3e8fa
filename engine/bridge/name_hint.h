/* The names of tables, for people who look at the bucket from outside. Beside objstore.h, whose rules hold.
 */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `json`, `bytes` of it, as hint/tables (docs/internals/formats-bucket.md). Advice only.
 * Requests: a GET, a PUT. Errors: kFenced, kUnavailable, kInterrupted; kInvalid: not the JSON of a hint. */
atoll_result atoll_store_put_table_names(const atoll_store *store, const char *json, uint64_t bytes);

#ifdef __cplusplus
}
#endif
