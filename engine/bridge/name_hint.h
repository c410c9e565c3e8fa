/* Writes the names of the tables into the bucket, for people and tools that look at it from outside. The
 * rules of objstore.h (threads, errors, strings) hold here too. */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the `bytes` bytes at `json` as the object hint/tables (docs/internals/formats-bucket.md). The
 * database itself does not need that object.
 * Requests: a GET, a PUT. Errors: kFenced, kUnavailable, kInterrupted; kInvalid: not the JSON of a hint. */
atoll_result atoll_store_put_table_names(const atoll_store *store, const char *json, uint64_t bytes);

#ifdef __cplusplus
}
#endif
