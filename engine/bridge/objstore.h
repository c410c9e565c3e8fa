/* The C ABI of the Rust object layer (crates/objstore-ffi), the only way from C++ to the bucket.
 *
 * Overview. One `atoll_store` is one opened database in one bucket. RocksDB's files live in
 * `local_dir`; the C++ file system (engine/cloudfs) tells the store what RocksDB does with them:
 * table files finished and deleted, MANIFEST and WAL bytes made durable. The store uploads files,
 * publishes roots, ships WAL chunks, and reads table files back through its part cache.
 *
 * Threads. Every function may be called from any thread at once, except open and close.
 * Errors. Every `atoll_result` carries an atoll::Code (engine/base/status.h) and a sentence. No
 * function unwinds into C++; a panic in Rust becomes kBug.
 * Strings are NUL-terminated UTF-8 and copied before the call returns.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct atoll_opener atoll_opener;
typedef struct atoll_store atoll_store;
typedef struct atoll_visitor atoll_visitor;
typedef struct atoll_mount atoll_mount;
typedef struct atoll_file atoll_file;

typedef struct {
  uint8_t code; /* atoll::Code */
  char message[1023];
} atoll_result;

enum { ATOLL_DURABILITY_LOCAL = 0, ATOLL_DURABILITY_ASYNC = 1, ATOLL_DURABILITY_SYNC = 2 };
enum { ATOLL_LOG_INFO = 0, ATOLL_LOG_WARNING = 1, ATOLL_LOG_ERROR = 2 };
/* What the server wants a waiting thread to do.
 * STOP: the thread's statement was killed, so the wait ends with kInterrupted.
 * MAKE_WAY: a killed statement may wait for this thread. So a read that the bucket has not answered for two
 * seconds ends with kUnavailable. */
enum { ATOLL_WISH_GO_ON = 0, ATOLL_WISH_STOP = 1, ATOLL_WISH_MAKE_WAY = 2 };

typedef struct {
  const char *url;        /* file:///absolute/path or s3://bucket/prefix */
  const char *endpoint;   /* "" = the provider's own; host:port or http(s)://host:port */
  const char *region;     /* "" = the region that the bucket's service names, else us-east-1 */
  const char *access_key; /* "" = environment, profile or role credentials */
  const char *secret_key;
  const char *session_token;
  const char *ca_file;    /* PEM file of authorities to trust beside the system's; "" = none */
  const char *addressing; /* "auto", "path" or "virtual"; "" = auto */
  const char *sse;        /* encryption asked for with uploads: "" = the bucket's own, "AES256", "aws:kms" */
  const char *sse_kms_key_id; /* "" = the key service's default key */
  const char *local_dir;  /* RocksDB's directory; if absent, it is restored from the bucket */
  const char *cache_dir;  /* directory of the part cache */
  const char *server_id;  /* for messages and the liveness hint, e.g. host:port:pid */
  uint64_t cache_bytes;   /* disk budget of the part cache */
  uint64_t backlog_bytes_max; /* limit of the files that wait for their upload; 0 = 1 GiB */
  uint64_t lag_bytes_max; /* how far the bucket may be behind local commits */
  uint64_t history_bytes_max;   /* limit of the objects that only the history keeps */
  uint32_t history_retention_s; /* every commit that is at most this old can be restored; 0 = no history */
  uint32_t lag_ms_max;
  uint32_t request_timeout_ms; /* one bucket request, first byte to last */
  uint8_t durability;
  uint8_t take_over;      /* 1: fence a live owner instead of refusing to open */
  void (*log)(int level, const char *message); /* called from any thread; never re-enters */
  /* Returns an ATOLL_WISH_*. Called about ten times a second, on a thread that waits for the bucket or for
   * the upload backlog. May be NULL. */
  int (*wish)(void);
} atoll_store_config;

/* Returns what a process remembers between its tries to open the database: the owner that it waits for, and
 * the epoch that a failed try has claimed. Null when there is no memory. The caller frees it after the last
 * try. */
atoll_opener *atoll_opener_new(void);
void atoll_opener_free(atoll_opener *opener);

/* How much longer the owner that the last try has seen must show no sign of life until a try can succeed.
 * 0 if the last try did not fail because of such an owner. No request. */
uint32_t atoll_opener_waits_ms(const atoll_opener *opener);

/* Connects, probes conditional writes, reads or creates the database, claims a new epoch and
 * fences the former ones; restores local_dir from the newest root when it is absent.
 * This is one try, which never waits for another owner. Without take_over, it fails with kUnavailable while
 * another owner may live; the caller then tries again every few seconds, with the same opener. It fails with
 * kReadOnly when another owner does live. `opener` may be null: then nothing is remembered between tries.
 * Nothing changes in the bucket before the claim.
 * Errors: kInvalid (configuration: name the variable and the next step), kUnavailable,
 * kReadOnly (another live server owns the bucket, or no conditional writes), kCorruption.
 * Requests: about 10 small ones; plus MANIFEST and WAL objects when restoring. */
atoll_result atoll_store_open(const atoll_opener *opener, const atoll_store_config *config, atoll_store **out);

/* Waits at most timeout_ms until all local changes are published, notes in the bucket that the owner is gone,
 * and frees the store.
 * Errors: kUnavailable if something stayed unpublished (the store is freed all the same). */
atoll_result atoll_store_close(atoll_store *store, uint32_t timeout_ms);

/* 1 when open() rebuilt local_dir from the bucket. */
int atoll_store_was_restored(const atoll_store *store);

/* ---- Table files (.sst, .blob). `number` is RocksDB's file number. ------------------------- */

/* Registers the finished, synced local file `path` as RocksDB's file `number`, and queues its upload.
 * Blocks: while the upload backlog is at its limit. Errors: kFenced; kInterrupted at close, or when the
 * statement of this thread was killed: then the file is not registered. */
atoll_result atoll_store_add_file(atoll_store *store, uint64_t number, const char *path);

/* Uploads a finished file that has no number yet (bulk load), keyed by its local path. Blocks and errors: as
 * add_file. */
atoll_result atoll_store_stage_file(atoll_store *store, const char *path);

/* Called when RocksDB has linked or renamed the staged file at `staged_path` to file `number` at `path`. If
 * no file was staged at `staged_path`, acts as add_file. */
atoll_result atoll_store_bind_file(atoll_store *store, const char *staged_path, uint64_t number,
                                   const char *path);

/* Makes file `number` share the object of file `from`: it is another name for the same bytes. Durable.
 * Blocks: until `from` is uploaded. Errors: kNotFound (there is no file `from` any more), kFenced;
 * kInterrupted at close, or when the statement of this thread was killed; kUnavailable, kNoSpace (local
 * disk). No request. */
atoll_result atoll_store_share_file(atoll_store *store, uint64_t from, uint64_t number);

/* Forgets a staged file that was never bound; its object is deleted. */
void atoll_store_unstage_file(atoll_store *store, const char *staged_path);

/* RocksDB no longer needs file `number`. The object is deleted after a root without it is published.
 * The local file, if any, is deleted by the store. */
atoll_result atoll_store_remove_file(atoll_store *store, uint64_t number);

/* Size in bytes of file `number`; kNotFound if the store has no such file. No request. */
atoll_result atoll_store_file_size(const atoll_store *store, uint64_t number, uint64_t *size);

/* Calls `each(context, number, size)` for every known file. */
void atoll_store_list_files(const atoll_store *store, void *context,
                            void (*each)(void *context, uint64_t number, uint64_t size));

/* A snapshot of the database, or another pin, such as that of a clone. The texts are valid during the
 * callback. */
typedef struct {
  const char *name; /* of the snapshot; where a clone is; the schema of a mount */
  const char *kind; /* "snapshot", "history", "mount", "clone", "copy", "unfinished", "unknown" */
  const char *pin;  /* the key of the pin's object in the bucket */
  const char *creator;
  const char *gtid_position;
  const char *problem; /* why the other fields are not known; "": they are */
  uint64_t created_ms; /* since 1970 */
  uint64_t commit_us;  /* of the newest commit; 0: there was none */
  uint64_t binlog_file; /* number of the binary log; 0 with offset 0: none */
  uint64_t binlog_offset;
  uint64_t files;
  uint64_t shared_bytes; /* of table files that the newest root or another pin needs, too */
  uint64_t alone_bytes;  /* of table files that only this pin keeps */
} atoll_snapshot;

/* Makes the snapshot `name` of the state that is in the bucket. To include local changes, the caller calls
 * atoll_store_publish() first. Calls `made` with the new snapshot.
 * Requests: those that read the newest root and its log, two PUTs and a LIST.
 * Errors: kInvalid (the name is taken, empty or longer than 1024 bytes), kNotFound (nothing was published
 * yet), kFenced, kUnavailable (the outcome is not known), kInterrupted (the statement of this thread was
 * killed). */
atoll_result atoll_store_create_snapshot(const atoll_store *store, const char *name, void *context,
                                         void (*made)(void *context, const atoll_snapshot *snapshot));

/* Drops the snapshot `name`. Objects that only this snapshot kept are deleted later. Requests: a GET and two
 * DELETEs.
 * Errors: kNotFound, kFenced, kUnavailable, kInterrupted. */
atoll_result atoll_store_drop_snapshot(const atoll_store *store, const char *name);

/* Sets `is_clone` to 1 when the database was made as a clone of another one (atollctl clone, restore --to),
 * else to 0. Requests: a GET. Errors: kUnavailable, kCorruption (its identity is damaged), kInterrupted. */
atoll_result atoll_store_is_clone(const atoll_store *store, uint8_t *is_clone);

/* Calls `each` for every snapshot and every other pin (once for all pins of the history), the oldest first.
 * Requests: a LIST, and those that read the newest root and the root of each pin. Errors: kUnavailable,
 * kInterrupted. */
atoll_result atoll_store_list_snapshots(const atoll_store *store, void *context,
                                        void (*each)(void *context, const atoll_snapshot *snapshot));

/* ---- States of the past, for reading (rule MOUNT-1) ----
 * Any thread may read a mount. The files of a mount must be closed before the mount. */

/* Pins the state that `when` names: a snapshot, or else a moment in UTC, as '2026-01-31 23:59:59'. Writes
 * MANIFEST, CURRENT and the log that ends at that moment into `directory`, which must not exist. `schema`:
 * the schema under which the server shows the mount; the pin has it only as a text for people. Local changes
 * must have been published before (atoll_store_publish). The caller removes `directory`, also after an error.
 * Errors: kInvalid (not a snapshot and not a moment; a moment outside the history, and the message names the
 * moments that can be restored), kFenced, kUnavailable, kNoSpace, kInterrupted.
 * Requests: those of a restore, and some small ones. */
atoll_result atoll_store_mount(const atoll_store *store, const char *when, const char *schema,
                               const char *directory, atoll_mount **out);
/* Opens a database only to read its states, whether another process owns it or not. Uses from `config` the
 * access to the bucket, `cache_dir` and `cache_bytes` for its part cache, and `server_id`; `local_dir` should
 * be absent. Writes nothing to the bucket but the pins of its mounts. Errors: kInvalid, kNotFound (no
 * database), kUnavailable, kNoSpace. Requests: a GET. */
atoll_result atoll_visitor_open(const atoll_store_config *config, atoll_visitor **out);
void atoll_visitor_close(atoll_visitor *visitor); /* requires: its mounts are closed */
/* As atoll_store_mount(). `when` may also be "now", which stands for all that is in the bucket. A process
 * that is killed leaves the pin of its mount, which `atollctl snapshot list` shows as a copy. Errors,
 * requests: as atoll_store_mount(), and a DELETE at atoll_mount_close(). */
atoll_result atoll_visitor_mount(const atoll_visitor *visitor, const char *when, const char *directory,
                                 atoll_mount **out);

/* Ends the mount. Objects that only the mount needed are deleted from the bucket later. Requests: none for a
 * mount of atoll_store_mount(), a DELETE for one of atoll_visitor_mount(). */
void atoll_mount_close(atoll_mount *mount);
/* When the newest commit of the mounted state was made, in microseconds since 1970; 0: there was none. */
uint64_t atoll_mount_commit_us(const atoll_mount *mount);
/* Returns 1 and the size of table file `number`, or 0 if there is no such file. No request. */
int atoll_mount_file_size(const atoll_mount *mount, uint64_t number, uint64_t *bytes);
/* Returns 1 and the checksum of table file `number`, or 0 if there is no such file. Two states of a database
 * have the same file if its number, size and checksum are the same. No request. */
int atoll_mount_file_crc32c(const atoll_mount *mount, uint64_t number, uint32_t *crc32c);
/* As atoll_file_open(). Errors: kNotFound. */
atoll_result atoll_mount_open_file(const atoll_mount *mount, uint64_t number, atoll_file **out);

atoll_result atoll_file_open(atoll_store *store, uint64_t number, atoll_file **out);
void atoll_file_close(atoll_file *file);

typedef struct {
  uint64_t offset;
  uint64_t length;
  char *buffer;      /* caller's, `length` bytes */
  uint64_t read;     /* out: fewer than length only at the end of the file */
  atoll_result result;
} atoll_read;

/* Reads through local file, then part cache, then bucket.
 * `refetch` != 0: the caller has found a wrong checksum; drops the cached parts of the range and reads the
 * bucket.
 * Requests: one ranged GET per run of missing parts. Blocks: on the network, bounded by request_timeout_ms
 * and retries, and by ATOLL_WISH_*. Errors: kUnavailable, kCorruption, kNotFound; kInterrupted when the
 * statement of this thread was killed and the bucket has not answered for one second. */
atoll_result atoll_file_read(atoll_file *file, uint64_t offset, uint64_t length, char *buffer,
                             uint64_t *read, int refetch);

/* The same for many ranges at once: runs whose gap is small are fetched in one GET, and GETs go
 * out in parallel. Results are per read. */
void atoll_file_read_many(atoll_file *file, atoll_read *reads, size_t count);

/* Starts fetching [offset, offset+length) into the part cache; returns at once. */
void atoll_file_prefetch(atoll_file *file, uint64_t offset, uint64_t length);

/* ---- MANIFEST and WAL ------------------------------------------------------------------------ */

/* The first `length` bytes of MANIFEST `number` are durable in local_dir. */
void atoll_store_manifest_synced(atoll_store *store, uint64_t number, uint64_t length);
/* CURRENT now names MANIFEST `number`; an unnamed MANIFEST is never published. */
void atoll_store_current_set(atoll_store *store, uint64_t number);
/* Called when RocksDB is open. `last_sequence`: the sequence number of its last change. Before this call, no
 * object of a former epoch is deleted from the bucket. If RocksDB's replay ended before the end of the
 * bucket's WAL, such objects are not deleted later either, and this is logged as an error. */
void atoll_store_opened(atoll_store *store, uint64_t last_sequence);
/* A MANIFEST edit that later WAL bytes depend on (family created or dropped, files ingested) has been
 * made: WAL shipped from now on is replayed only over a root that contains it (gate PUB-G8). */
void atoll_store_note_ddl(atoll_store *store);
/* Called before a MANIFEST edit that removes data (family dropped, files of a range deleted). A commit in WAL
 * bytes that were appended earlier has removed the last reference to that data. So no root with the edit is
 * published before those bytes are shipped (gate PUB-G2). */
void atoll_store_note_drop(atoll_store *store);
/* Called when the server's recovery has committed a prepared transaction. A former process may have
 * acknowledged that commit. So with durability async, no new commit is acknowledged before the bucket has all
 * WAL bytes that were appended so far. */
void atoll_store_note_recovered(atoll_store *store);

/* Notes a commit that is in the WAL. Each root says which commits were the newest when it was made, so that a
 * restore to an earlier transaction finds the root to start from. `time_us`: since 1970; `last_sequence`:
 * RocksDB's.
 * gtid_sequence 0: the commit has no GTID; binlog_offset 0: it is in no binary log. Any thread. Costs a short
 * lock. */
void atoll_store_note_commit(atoll_store *store, uint64_t time_us, uint64_t last_sequence,
                             uint32_t gtid_domain, uint32_t gtid_server, uint64_t gtid_sequence,
                             uint64_t binlog_file, uint64_t binlog_offset);

void atoll_store_wal_created(atoll_store *store, uint64_t number);
/* The WAL `number` now has `length` bytes, not necessarily durable. */
void atoll_store_wal_appended(atoll_store *store, uint64_t number, uint64_t length);
/* The first `length` bytes of WAL `number` are durable locally and may be shipped. */
void atoll_store_wal_synced(atoll_store *store, uint64_t number, uint64_t length);
void atoll_store_wal_closed(atoll_store *store, uint64_t number, uint64_t length);
void atoll_store_wal_deleted(atoll_store *store, uint64_t number);

/* A position in the WAL stream of this process: bytes appended over all WALs so far. */
uint64_t atoll_store_wal_position(const atoll_store *store);

/* Waits until the bucket holds the WAL up to `position` and every MANIFEST edit noted before.
 * Errors: kFenced, kUnavailable after timeout_ms. Used by durability=sync, by DDL, by tests. */
atoll_result atoll_store_wait_shipped(atoll_store *store, uint64_t position, uint32_t timeout_ms);

/* Called after each commit and DDL: with durability=async, waits while the bucket lags more than the
 * limits allow, at most timeout_ms; with sync, waits for the caller's own bytes; with local, returns.
 * Costs one atomic load when the lag is within bounds. Errors: kFenced, kUnavailable. */
atoll_result atoll_store_after_commit(atoll_store *store, uint64_t position, uint32_t timeout_ms);

/* Publishes everything that is local now: uploads done, root written. Errors: as wait_shipped. */
atoll_result atoll_store_publish(atoll_store *store, uint32_t timeout_ms);

/* kOk while this process may write; kFenced with the winner's epoch otherwise. One atomic load. */
atoll_result atoll_store_may_write(const atoll_store *store);

/* Not 0 while a thread waits because the upload backlog is at its limit. One atomic load. */
int atoll_store_is_backlog_full(const atoll_store *store);

/* For a server that shuts down: from now on no thread waits for the upload backlog. So flushes end even if
 * the bucket cannot be reached; the next start uploads their files. */
void atoll_store_stop_waiting(atoll_store *store);

/* The settings that can be changed while the store is open. */
void atoll_store_set_backlog_bytes_max(atoll_store *store, uint64_t bytes);
void atoll_store_set_cache_bytes(atoll_store *store, uint64_t bytes);
void atoll_store_set_durability(atoll_store *store, uint8_t durability, uint32_t lag_ms_max,
                                uint64_t lag_bytes_max);
/* Units: seconds, bytes, as in the configuration. Objects that a shorter history no longer needs are deleted
 * soon. */
void atoll_store_set_history(atoll_store *store, uint32_t retention_s, uint64_t bytes_max);

/* Tries whether the database can be read and written with these keys, on a connection of its own. Changes
 * nothing. If access_key is empty, secret_key belongs to the access key in use.
 * Errors: kInvalid (the configuration gave no keys at the start; not this database), kUnavailable (refused,
 * or no answer), kReadOnly, kInterrupted. Requests: six small ones. */
atoll_result atoll_store_try_keys(const atoll_store *store, const char *access_key, const char *secret_key,
                                  const char *session_token);
/* Signs every request from now on with these keys. No request. Errors: kInvalid as atoll_store_try_keys. */
atoll_result atoll_store_set_keys(const atoll_store *store, const char *access_key, const char *secret_key,
                                  const char *session_token);

/* ---- Numbers ----------------------------------------------------------------------------------- */
typedef struct {
  uint64_t epoch;
  uint64_t requests_get, requests_put, requests_head, requests_list, requests_delete;
  uint64_t request_retries, request_errors;
  uint64_t bytes_downloaded, bytes_uploaded;
  uint64_t cache_bytes_used, cache_hits, cache_misses, cache_evictions, cache_corruptions;
  uint64_t upload_backlog_files, upload_backlog_bytes;
  uint64_t publish_lag_ms, wal_lag_ms, wal_lag_bytes;
  uint64_t roots_published, wal_chunks_shipped;
  uint64_t files, files_bytes;
  uint64_t history_bytes; /* of objects that only the history keeps */
  uint64_t history_s;     /* every commit of the last history_s seconds can be restored; 0: no history */
  uint64_t history_cuts;  /* how often the limit of its bytes has made the history shorter */
  uint8_t fenced, trim_disabled;
  char database_uuid[40];
  char last_error[512];
} atoll_store_stats;

void atoll_store_get_stats(const atoll_store *store, atoll_store_stats *out);

#ifdef __cplusplus
}
#endif
