/* The settings of the database that are kept in the bucket (rules SETTINGS-1 and SETTINGS-2). The rules of
 * objstore.h (threads, errors, strings) hold here too. */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t number;            /* 0: nobody has ever changed a setting, so the other fields mean nothing */
  uint64_t history_bytes_max; /* 0: not decided */
  uint64_t former_until_ms;   /* until then, ms since 1970, former_retention_s holds if it is longer */
  uint32_t history_retention_s;
  uint32_t former_retention_s;
  char schedule[256]; /* as atoll_snapshot_schedule */
} atoll_kept_settings;

/* Returns the settings as this process has last read or changed them. No request. */
void atoll_store_kept_settings(const atoll_store *store, atoll_kept_settings *out);
/* Changes the settings whose pointers are not NULL. They hold for this and all later servers of the database;
 * the caller also calls atoll_store_set_history(). `grace_s`: for how long a longer retention still holds.
 * Errors: kFenced, kInvalid (the schedule has more than 255 bytes), kUnavailable (the outcome is not known:
 * repeat the call), kInterrupted. Requests: a LIST, a HEAD, a GET, a PUT. */
atoll_result atoll_store_change_settings(const atoll_store *store, const uint32_t *history_retention_s,
                                         const uint64_t *history_bytes_max, const char *schedule,
                                         uint32_t grace_s);

#ifdef __cplusplus
}
#endif
