// The settings of the database that are kept in the bucket (rules SETTINGS-1 and SETTINGS-2), as SET GLOBAL
// changes them: atoll_history_retention, atoll_history_max_bytes, atoll_snapshot_schedule.
//
// The server calls the check functions of these variables before it uses a new value, and without a lock.
// They store the value in the bucket, so a SET GLOBAL that succeeds holds for all later servers, too. In two
// cases a variable and the bucket differ afterwards: the server does not check DEFAULT, and it does not use a
// value if it refuses a later one of the same statement. Then store_what_is_shown() stores what the variable
// shows.
#pragma once

#include "handler/server.h"

#include <mysql/plugin.h>

#include "plugin/merged_settings.h"

struct atoll_store;

namespace atoll::plugin {

// Returns the number that a SET statement gives. One out of range becomes the nearest allowed one, with a
// warning.
unsigned long long number_in(MYSQL_THD thd, const char *name, st_mysql_value *value, unsigned long long min,
                             unsigned long long max);

// Stores the settings whose pointers are not null in the bucket. Does nothing without a running engine: then
// the value counts as one of the configuration. Returns 0, or 1 with the error of the statement set.
// `grace_s`: for how long a longer retention still holds. Requests: a LIST, a HEAD, a GET, a PUT.
int keep_in_bucket(const uint32_t *retention_s, const uint64_t *bytes_max, const char *schedule,
                   uint32_t grace_s);

// Returns the retention in seconds that holds now: the longest of `shown_s`, which the variable shows, that
// of the bucket, and, until the grace time is over, one that was shortened. No request.
unsigned kept_retention(const atoll_store *store, unsigned shown_s);
// If a longer retention still holds, a note of the statement says until when.
void tell_of_grace(MYSQL_THD thd);

// Returns what the server uses of `configured` and the settings in the bucket, and logs why. No request.
KeptValues merge_with_bucket(const atoll_store *store, const KeptValues &configured,
                             const KeptValues &defaults);

// Stores what of `shown` is not in the bucket, if it has been so at the call before, too: a SET GLOBAL stores
// its value first, and shows it a moment later. Called each second, by one thread. An error is logged, and
// the next try is a minute later. Requests: as keep_in_bucket(), usually none.
void store_what_is_shown(atoll_store *store, const KeptValues &shown, const KeptValues &defaults,
                         uint32_t grace_s);

}  // namespace atoll::plugin
