/* The part of the C ABI of the object layer for readers (crates/objstore-ffi/src/reader.rs). A reader shows
 * the newest state of a database that another server owns. Threads, errors and texts: as in objstore.h. */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct atoll_reader atoll_reader;

/* The bytes of the text that atoll_reader_owner() writes, with its terminating zero. */
enum { ATOLL_OWNER_BYTES = 256 };

/* Opens a database for reading, whether another process owns it or not. Uses from `config` what
 * atoll_visitor_open() uses. Writes nothing to the bucket but objects below pin/. Errors: kInvalid, kNotFound
 * (there is no database), kUnavailable, kNoSpace. Requests: a GET. */
atoll_result atoll_reader_open(const atoll_store_config *config, atoll_reader **out);
/* Requires: its views are closed. Takes at most 3 s. Requests: a DELETE for each view that was in use. */
void atoll_reader_close(atoll_reader *reader);

/* *has_news: 1 if the bucket may have more than the view that was taken last, or none was taken; else 0.
 * Errors: kUnavailable, kInterrupted. Requests: two LISTs. */
atoll_result atoll_reader_look(const atoll_reader *reader, int *has_news);
/* Takes a view of everything that is in the bucket: a mount that never changes. Writes MANIFEST, CURRENT and
 * the log into `directory`, which must not exist. The caller removes `directory`, also after an error. A view
 * that is in use for longer than 15 minutes without the bucket may lose objects; a read of such an object
 * fails with kNotFound or kCorruption. Errors: kNotFound (the owner has published nothing yet), kUnavailable,
 * kCorruption, kNoSpace, kInterrupted. Requests: as a restore, and some small ones; a PUT and a DELETE every
 * 5 minutes while the view is in use. */
atoll_result atoll_reader_view(const atoll_reader *reader, const char *directory, atoll_mount **out);
/* Writes the name of the server that has shown last that it owns the database to `owner`, which has room for
 * ATOLL_OWNER_BYTES; "" if none has. Errors: kUnavailable, kInterrupted. Requests: a GET. */
atoll_result atoll_reader_owner(const atoll_reader *reader, char *owner);
/* As atoll_store_owes_masking(). No request. */
int atoll_reader_owes_masking(const atoll_reader *reader, const char *masked_in);
/* Fills the numbers of requests and of the part cache, the uuid and the last error; the others are 0. */
void atoll_reader_get_stats(const atoll_reader *reader, atoll_store_stats *out);

/* Calls `each` for the last GTID of each replication domain among the commits of the state. No request. */
void atoll_mount_gtids(const atoll_mount *mount, void *context,
                       void (*each)(void *context, uint32_t domain, uint32_t server, uint64_t sequence));

#ifdef __cplusplus
}
#endif
