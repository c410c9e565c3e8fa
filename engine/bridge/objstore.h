/* The C ABI of the Rust object layer (crates/objstore-ffi), the only way from C++ to the bucket.
 *
 * Overview. One `atoll_store` is one opened database in one bucket. RocksDB's files live in
 * `local_dir`; the C++ file system (engine/cloudfs) tells the store what RocksDB does with them:
 * table files finished and deleted, MANIFEST and WAL bytes made durable. The store uploads files,
 * publishes roots, ships WAL chunks, and reads table files back through its part cache.
 *
 * Threads. Any number of threads may call these functions at the same time. Only the functions that open,
 * close or free an object must not run at the same time as another call for this object.
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
  uint8_t code; /* a number of atoll::Code; 0: success */
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
  const char *endpoint;   /* host:port or http(s)://host:port of the S3 service; "" = the provider's own */
  const char *region;     /* "" = the region that the bucket's service names, else us-east-1 */
  const char *access_key; /* "" = environment, profile or role credentials */
  const char *secret_key;
  const char *session_token;
  const char *ca_file;    /* PEM file of authorities to trust beside the system's; "" = none */
  const char *addressing; /* "auto", "path" or "virtual"; "" = auto */
  const char *sse;        /* encryption asked for with uploads: "" = the bucket's own, "AES256", "aws:kms" */
  const char *sse_kms_key_id; /* "" = the key service's default key */
  const char *local_dir;      /* RocksDB's directory; if absent, it is restored from the bucket */
  const char *cache_dir;      /* directory of the part cache */
  const char *server_id; /* names this owner in messages and in the hint that it lives, e.g. host:port:pid */
  uint64_t cache_bytes;  /* how many bytes of disk the part cache may use */
  uint64_t backlog_bytes_max;   /* how many bytes of table files may wait for their upload; 0 = 1 GiB */
  uint64_t lag_bytes_max;       /* with durability async: by how many bytes of log the bucket may be behind */
  uint64_t history_bytes_max;   /* how many bytes of objects the bucket may keep for the history alone */
  uint32_t history_retention_s; /* every commit that is at most this old can be restored; 0 = no history */
  uint32_t lag_ms_max;          /* with durability async: by how much time the bucket may be behind */
  uint32_t request_timeout_ms;  /* how long one bucket request may take, first byte to last; 0 = 30 s */
  uint8_t durability;           /* an ATOLL_DURABILITY_* */
  uint8_t take_over;            /* 1: fence a live owner instead of refusing to open */
  void (*log)(int level, const char *message); /* called from any thread; must not call the store */
  /* Returns an ATOLL_WISH_*. Called about ten times a second, on a thread that waits for the bucket or for
   * the upload backlog. May be NULL. */
  int (*wish)(void);
} atoll_store_config;

/* Returns an object that remembers, between a process's attempts to open the database, for which owner the
 * process waits and which epoch a failed attempt has claimed. Null when there is no memory for the object.
 * The caller frees the object after the last attempt. */
atoll_opener *atoll_opener_new(void);
void atoll_opener_free(atoll_opener *opener);

/* Returns the milliseconds for which the owner that the last attempt has seen must still show no sign of
 * life before an attempt can succeed. 0 if the last attempt did not fail because of such an owner. No
 * request. */
uint32_t atoll_opener_waits_ms(const atoll_opener *opener);

/* Connects, probes conditional writes, reads or creates the database, claims a new epoch and
 * fences the former ones; restores local_dir from the newest root when it is absent.
 * This is one attempt, which never waits for another owner. Without take_over, it fails with kUnavailable
 * while another owner may live; the caller then tries again every few seconds, with the same opener. It fails
 * with kReadOnly when another owner does live. `opener` may be null: then nothing is remembered between
 * attempts. Nothing changes in the bucket before the claim.
 * Errors: kInvalid (the configuration is wrong; the message names the variable and what to do),
 * kUnavailable, kReadOnly (another live server owns the bucket, or the bucket has no conditional writes),
 * kCorruption.
 * Requests: about 10 small ones; plus MANIFEST and WAL objects when restoring. */
atoll_result atoll_store_open(const atoll_opener *opener, const atoll_store_config *config,
                              atoll_store **out);

/* Waits at most timeout_ms until all local changes are published, writes the hint that the owner has closed
 * the database, and frees the store.
 * Errors: kUnavailable if something stayed unpublished, kFenced. The store is freed even after an error. */
atoll_result atoll_store_close(atoll_store *store, uint32_t timeout_ms);

/* Returns 1 if atoll_store_open() has rebuilt local_dir from the bucket, else 0. */
int atoll_store_was_restored(const atoll_store *store);

/* Calls `each` with the newest GTID of each replication domain among the commits that the database has. */
void atoll_store_newest_gtids(const atoll_store *store, void *context,
                              void (*each)(void *context, uint32_t domain, uint32_t server,
                                           uint64_t sequence));

/* ---- Table files (.sst, .blob). `number` is RocksDB's file number. ------------------------- */

/* Registers the finished, synced local file `path` as RocksDB's file `number`, and queues its upload.
 * Blocks: while the upload backlog is at its limit. Errors: kFenced; kInterrupted at close, or when the
 * statement of this thread was killed: then the file is not registered. */
atoll_result atoll_store_add_file(atoll_store *store, uint64_t number, const char *path);

/* Queues the upload of a finished file that has no number yet (bulk load). Until atoll_store_bind_file(), the
 * store knows the file by its local path. Blocks and errors: as add_file. */
atoll_result atoll_store_stage_file(atoll_store *store, const char *path);

/* Called when RocksDB has linked or renamed the staged file at `staged_path` to file `number` at `path`. If
 * no file was staged at `staged_path`, acts as add_file. */
atoll_result atoll_store_bind_file(atoll_store *store, const char *staged_path, uint64_t number,
                                   const char *path);

/* Makes file `number` share the object of file `from`, so that both have the same bytes. Durable.
 * Blocks: until `from` is uploaded. Errors: kNotFound (there is no file `from` any more), kFenced;
 * kInterrupted at close, or when the statement of this thread was killed; kUnavailable, kNoSpace (local
 * disk). No request. */
atoll_result atoll_store_share_file(atoll_store *store, uint64_t from, uint64_t number);

/* Forgets a staged file that was never bound. The store deletes its object and its local file. */
void atoll_store_unstage_file(atoll_store *store, const char *staged_path);

/* Called when RocksDB no longer needs file `number`. The store deletes the local file, if there is one. It
 * deletes the object only after a root without the object is published. Errors: kNotFound. */
atoll_result atoll_store_remove_file(atoll_store *store, uint64_t number);

/* Sets *size to the size of file `number` in bytes. Errors: kNotFound: the store has no such file. No
 * request. */
atoll_result atoll_store_file_size(const atoll_store *store, uint64_t number, uint64_t *size);

/* Calls `each(context, number, size)` for every registered file that was not removed; `size` in bytes. */
void atoll_store_list_files(const atoll_store *store, void *context,
                            void (*each)(void *context, uint64_t number, uint64_t size));

/* A snapshot of the database, or another pin, such as a clone's. The texts are valid during the
 * callback. */
typedef struct {
  const char *name; /* the snapshot's name; or where the clone is; or the schema of the mount */
  const char *kind; /* "snapshot", "history", "mount", "clone", "copy", "unfinished", "unknown" */
  const char *pin;  /* the key of the pin's object in the bucket */
  const char *creator;
  const char *gtid_position;
  const char *problem;    /* why the other fields could not be read; "": they were read */
  uint64_t created_ms;    /* since 1970 */
  uint64_t commit_us;     /* time of the newest commit, since 1970; 0: there was none */
  uint64_t binlog_file;   /* number of the binary log file of that commit */
  uint64_t binlog_offset; /* position in that file; 0: the commit is in no binary log */
  uint64_t files;         /* number of table files */
  uint64_t shared_bytes;  /* bytes of its table files that the newest root or another pin needs, too */
  uint64_t alone_bytes; /* bytes of its table files that only this pin keeps; of the history, also its log */
} atoll_snapshot;

/* Makes the snapshot `name` of the state that is in the bucket. To include local changes, the caller calls
 * atoll_store_publish() first. Calls `made` with the new snapshot.
 * Requests: those that read the newest root and its log, two PUTs and a LIST.
 * Errors: kInvalid (the name is taken, empty or longer than 1024 bytes), kNotFound (nothing was published
 * yet), kFenced, kUnavailable (the outcome is not known), kInterrupted (the statement of this thread was
 * killed). */
atoll_result atoll_store_create_snapshot(const atoll_store *store, const char *name, void *context,
                                         void (*made)(void *context, const atoll_snapshot *snapshot));

/* Drops the snapshot `name`. Objects that only this snapshot kept are deleted later. Requests: a GET, three
 * LISTs and two DELETEs, and a DELETE for each protection that the snapshot has had.
 * Errors: kNotFound, kInvalid (the snapshot is protected until a later date), kFenced, kUnavailable,
 * kInterrupted. */
atoll_result atoll_store_drop_snapshot(const atoll_store *store, const char *name);

/* Sets `is_clone` to 1 when the database was made as a clone of another one (atollctl clone, restore --to),
 * else to 0. Requests: a GET. Errors: kUnavailable, kCorruption (the object that identifies the database is
 * damaged), kInterrupted. */
atoll_result atoll_store_is_clone(const atoll_store *store, uint8_t *is_clone);

/* Whether no user may read rows before they are masked, because the database was made by
 * `atollctl clone --mask` or is a clone of such a database (rule MASK-3). `masked_in`: the uuid of the
 * database in which the rows were masked last; "": never. */
uint8_t atoll_store_owes_masking(const atoll_store *store, const char *masked_in);

/* Calls `each` for every snapshot and every other pin (once for all pins of the history), the oldest first.
 * Requests: three LISTs, and those that read the newest root and the root of each pin. Errors: kUnavailable,
 * kInterrupted. */
atoll_result atoll_store_list_snapshots(const atoll_store *store, void *context,
                                        void (*each)(void *context, const atoll_snapshot *snapshot));

/* As atoll_store_list_snapshots(), but the numbers about files are 0, and a root that is missing is not
 * noticed. Requests: two LISTs, and a GET or two per pin outside of the history. Errors: kUnavailable,
 * kInterrupted. */
atoll_result atoll_store_list_pins(const atoll_store *store, void *context,
                                   void (*each)(void *context, const atoll_snapshot *snapshot));

/* As atoll_store_list_pins(), for the pins of readers alone, the oldest states first: a reader has one for each
 * state that it shows. Requests: a LIST, and a GET per pin. Errors: kUnavailable, kInterrupted. */
atoll_result atoll_store_list_readers(const atoll_store *store, void *context,
                                      void (*each)(void *context, const atoll_snapshot *snapshot));

/* ---- Mounts: reading states of the past ----
 * The collector of the owner deletes the pins of its mounts that have ended, and of mounts of earlier
 * processes (rule MOUNT-1). Any thread may read a mount. The files of a mount must be closed before the
 * mount. */

/* Pins the state that `when` names: a snapshot, or else a moment in UTC, as '2026-01-31 23:59:59'. Writes
 * MANIFEST, CURRENT and the log that ends at that moment into `directory`, which must not exist. `schema`:
 * the schema under which the server shows the mount; the pin has it only as a text for people. Local changes
 * must have been published before (atoll_store_publish). The caller removes `directory`, also after an error.
 * Errors: kInvalid (not a snapshot and not a moment; a moment outside the history, and the message names the
 * moments that can be restored), kFenced, kUnavailable, kNoSpace, kInterrupted.
 * Requests: as a restore, and some small ones. */
atoll_result atoll_store_mount(const atoll_store *store, const char *when, const char *schema,
                               const char *directory, atoll_mount **out);
/* Opens a database only to read its states, whether another process owns it or not. Uses from `config` the
 * access to the bucket, `cache_dir` and `cache_bytes` for its part cache, and `server_id`; `local_dir` should
 * be absent. Writes nothing to the bucket but the pins of its mounts. Errors: kInvalid, kNotFound (there is
 * no database), kUnavailable, kNoSpace. Requests: a GET. */
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
/* Returns the time of the newest commit in the mounted state, in microseconds since 1970; 0: it has none. */
uint64_t atoll_mount_commit_us(const atoll_mount *mount);
/* Returns 1 and sets *bytes to the size of table file `number`, or returns 0 if the state has no such file.
 * No request. */
int atoll_mount_file_size(const atoll_mount *mount, uint64_t number, uint64_t *bytes);
/* Returns 1 and sets *crc32c to the checksum of table file `number`, or returns 0 if the state has no such
 * file. A file of one state is also a file of another state of the database if number, size and checksum are
 * the same in both. No request. */
int atoll_mount_file_crc32c(const atoll_mount *mount, uint64_t number, uint32_t *crc32c);
/* Makes table file `number` of the database have the object of table file `from` of the mounted state, so
 * that rows of the past come back without a copy. Durable. `mount`: one of atoll_store_mount() of this store.
 * Errors: kNotFound (the state has no file `from`), kInvalid (the object belongs to the parent of this
 * clone), kFenced; kUnavailable, kNoSpace (local disk). No request. */
atoll_result atoll_store_adopt_file(atoll_store *store, const atoll_mount *mount, uint64_t from,
                                    uint64_t number);
/* As atoll_file_open(). Errors: kNotFound. */
atoll_result atoll_mount_open_file(const atoll_mount *mount, uint64_t number, atoll_file **out);

atoll_result atoll_file_open(atoll_store *store, uint64_t number, atoll_file **out);
void atoll_file_close(atoll_file *file);

typedef struct {
  uint64_t offset;
  uint64_t length;
  char *buffer;  /* belongs to the caller; has room for `length` bytes */
  uint64_t read; /* out: the bytes that were read; fewer than `length` only at the end of the file */
  atoll_result result;
} atoll_read;

/* Reads from the local file if there is one, else from the part cache, else from the bucket.
 * `refetch` != 0: the caller has found a wrong checksum, so this call drops the cached parts of the range and
 * reads from the bucket.
 * Requests: one ranged GET per run of missing parts. Blocks: on the network, bounded by request_timeout_ms
 * and retries, and by ATOLL_WISH_*. Errors: kUnavailable, kCorruption, kNotFound; kInterrupted when the
 * statement of this thread was killed and the bucket has not answered for one second. */
atoll_result atoll_file_read(atoll_file *file, uint64_t offset, uint64_t length, char *buffer, uint64_t *read,
                             int refetch);

/* As atoll_file_read(), for many ranges at once. Missing parts that are close together are fetched by one
 * GET, and the GETs run in parallel. Each read has its own result. */
void atoll_file_read_many(atoll_file *file, atoll_read *reads, size_t count);

/* Starts fetching [offset, offset+length) into the part cache; returns at once. */
void atoll_file_prefetch(atoll_file *file, uint64_t offset, uint64_t length);

/* ---- MANIFEST and WAL ------------------------------------------------------------------------ */

/* Called when the first `length` bytes of MANIFEST `number` are durable in local_dir. */
void atoll_store_manifest_synced(atoll_store *store, uint64_t number, uint64_t length);
/* Called when CURRENT names MANIFEST `number`. A MANIFEST that CURRENT has not named is never published. */
void atoll_store_current_set(atoll_store *store, uint64_t number);
/* Called when RocksDB is open. `last_sequence`: the sequence number of its last change. Before this call, no
 * object of a former epoch is deleted from the bucket. If RocksDB's replay ended before the end of the
 * bucket's WAL, such objects are not deleted later either, and this is logged as an error. */
void atoll_store_opened(atoll_store *store, uint64_t last_sequence);
/* Called when a MANIFEST edit has been made on which later WAL bytes depend (family created or dropped, files
 * ingested). WAL bytes that are appended from now on are replayed only over a root that contains the edit
 * (gate PUB-G8). */
void atoll_store_note_ddl(atoll_store *store);
/* Called before a MANIFEST edit that removes data (family dropped, files of a range deleted). A commit in WAL
 * bytes that were appended earlier has removed the last reference to that data. So no root with the edit is
 * published before those bytes are shipped (gate PUB-G7). */
void atoll_store_note_drop(atoll_store *store);
/* Called when the server's recovery has committed a prepared transaction. A former process may have
 * acknowledged that commit. So with durability async, no new commit is acknowledged before the bucket has all
 * WAL bytes that were appended so far. */
void atoll_store_note_recovered(atoll_store *store);

/* Notes a commit that is in the WAL. Each root says which commits were the newest when it was made, so that a
 * restore to an earlier transaction finds the root to start from. `time_us`: the time of the commit, since
 * 1970; `last_sequence`: RocksDB's newest sequence number at this call.
 * gtid_sequence 0: the commit has no GTID; binlog_offset 0: it is in no binary log. Any thread. Costs a short
 * lock. */
void atoll_store_note_commit(atoll_store *store, uint64_t time_us, uint64_t last_sequence,
                             uint32_t gtid_domain, uint32_t gtid_server, uint64_t gtid_sequence,
                             uint64_t binlog_file, uint64_t binlog_offset);

void atoll_store_wal_created(atoll_store *store, uint64_t number);
/* Called when WAL `number` has `length` bytes. They may not be durable yet. */
void atoll_store_wal_appended(atoll_store *store, uint64_t number, uint64_t length);
/* Called when the first `length` bytes of WAL `number` are durable locally, so that they can be shipped. */
void atoll_store_wal_synced(atoll_store *store, uint64_t number, uint64_t length);
void atoll_store_wal_closed(atoll_store *store, uint64_t number, uint64_t length);
void atoll_store_wal_deleted(atoll_store *store, uint64_t number);

/* Returns how many bytes this process has appended to all its WALs so far. Such a number is a position in the
 * log. */
uint64_t atoll_store_wal_position(const atoll_store *store);

/* Waits until the bucket has the WAL up to `position` and every MANIFEST edit that was noted before this
 * call. Used by durability=sync, by DDL, by tests. Errors: kFenced, kUnavailable after timeout_ms,
 * kInterrupted at close. */
atoll_result atoll_store_wait_shipped(atoll_store *store, uint64_t position, uint32_t timeout_ms);

/* Called after each commit and DDL. With durability=async, waits at most timeout_ms while the bucket lags
 * more than the limits allow. With sync, waits as atoll_store_wait_shipped(). With local, returns at once.
 * Costs some atomic loads when the lag is within its limits. Errors: as atoll_store_wait_shipped(). */
atoll_result atoll_store_after_commit(atoll_store *store, uint64_t position, uint32_t timeout_ms);

/* Waits until everything that is local at this call is in the bucket: table files, WAL, and a root that names
 * them. Errors: as wait_shipped. */
atoll_result atoll_store_publish(atoll_store *store, uint32_t timeout_ms);

/* Returns kOk while this process is allowed to write, which costs one atomic load. Errors: kFenced, with the
 * epoch of the owner that has fenced this one; kReadOnly: a background task of the store has died. */
atoll_result atoll_store_may_write(const atoll_store *store);

/* Returns 1 while a thread waits because the upload backlog is at its limit, else 0. One atomic load. */
int atoll_store_is_backlog_full(const atoll_store *store);

/* A caller that writes to the local disk calls this for each MiB. If the disk has less free space than the
 * part cache leaves, the cache gives space back. Local disk work only; no errors. */
void atoll_store_make_room(const atoll_store *store);

/* For a server that shuts down: from now on no thread waits for the upload backlog. So flushes end even if
 * the bucket cannot be reached; the next start uploads their files. */
void atoll_store_stop_waiting(atoll_store *store);

/* Change settings while the store is open. */
void atoll_store_set_backlog_bytes_max(atoll_store *store, uint64_t bytes);
void atoll_store_set_cache_bytes(atoll_store *store, uint64_t bytes);
void atoll_store_set_durability(atoll_store *store, uint8_t durability, uint32_t lag_ms_max,
                                uint64_t lag_bytes_max);
/* Changes history_retention_s and history_bytes_max of the configuration. Objects that a shorter history no
 * longer needs are deleted soon. */
void atoll_store_set_history(atoll_store *store, uint32_t retention_s, uint64_t bytes_max);

/* Tries whether the database can be read and written with these keys, on a connection of its own. Changes
 * nothing. If access_key is empty, secret_key belongs to the access key in use.
 * Errors: kInvalid (the configuration gave no keys at the start; or with these keys the bucket does not show
 * this database), kUnavailable (the bucket refuses the keys, or does not answer), kReadOnly, kInterrupted.
 * Requests: six small ones. */
atoll_result atoll_store_try_keys(const atoll_store *store, const char *access_key, const char *secret_key,
                                  const char *session_token);
/* Signs every request from now on with these keys. No request. Errors: kInvalid as atoll_store_try_keys. */
atoll_result atoll_store_set_keys(const atoll_store *store, const char *access_key, const char *secret_key,
                                  const char *session_token);

/* ---- Numbers of a store, for SHOW STATUS -------------------------------------------------------- */
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
  uint64_t history_bytes; /* bytes of objects that only the history keeps */
  uint64_t history_s;     /* every commit of the last history_s seconds can be restored; 0: no history */
  uint64_t history_cuts;  /* how often history_bytes_max has made the history shorter */
  uint8_t fenced, trim_disabled;
  char database_uuid[40];
  char last_error[512];
} atoll_store_stats;

void atoll_store_get_stats(const atoll_store *store, atoll_store_stats *out);

#ifdef __cplusplus
}
#endif
