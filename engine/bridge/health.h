/* A further part of the C ABI of the Rust object layer (objstore.h): what a DBA must know about an open
 * store. */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t objects_missing; /* table objects found missing or too short, until they are put back */
  uint64_t last_error_ms;   /* when the last error was, in milliseconds since 1970; 0: there was none */
  uint64_t last_commit_us; /* when the newest commit was made, in microseconds since 1970; 0: there is none */
} atoll_store_health;

void atoll_store_get_health(const atoll_store *store, atoll_store_health *out);

#ifdef __cplusplus
}
#endif
