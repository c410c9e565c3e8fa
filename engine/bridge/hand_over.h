/* A table changes databases, and its table files stay where they are (rules HANDOVER-1 to HANDOVER-4 in
 * crates/objstore/src/protocol/history/hand_over.rs). The giver is the database that had the table, the taker
 * the one that gets it. The rules of objstore.h (threads, errors, strings) hold here too. An `id` consists of
 * hexadecimal digits and '-'; kInvalid: it does not. */
#pragma once

#include "bridge/objstore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Giver: pins the newest state in the bucket for whoever takes the table. Requires: the table is hidden, and
 * everything is published. `place` is shown in lists of pins.
 * Requests: those that read the newest root and its log, a PUT and a LIST. Errors: kFenced, kInterrupted,
 * kUnavailable (the outcome is not known: cancel the hand-over). */
atoll_result atoll_store_offer_table(const atoll_store *store, const char *id, const char *place);
/* Giver: sets *is_offered to 1 while that pin exists, else to 0. Requests: a HEAD. Errors: kUnavailable. */
atoll_result atoll_store_is_offered(const atoll_store *store, const char *id, uint8_t *is_offered);
/* Giver: deletes that pin. Requires: the hand-over is cancelled. Requests: a DELETE. Errors: kFenced,
 * kUnavailable: the pin may stay; nothing depends on that but space. */
atoll_result atoll_store_withdraw_offer(const atoll_store *store, const char *id);

/* Taker: notes durably that it takes the table from the database at `url`. `own_url`: that of the taker. The
 * functions below that a taker calls need the note. Sets *is_new to 0 when it was noted before, else to 1.
 * Requests: a PUT; two GETs when there is a note. Errors: kInvalid (another bucket or machine, or another
 * database was noted before), kFenced, kUnavailable. */
atoll_result atoll_store_note_taking(const atoll_store *store, const char *id, const char *own_url,
                                     const char *url, uint8_t *is_new);
/* Taker: deletes the note. Requires: it reads no file of the giver. Requests: a DELETE. Errors: kUnavailable.
 */
atoll_result atoll_store_forget_taking(const atoll_store *store, const char *id);
/* Taker: as atoll_store_mount(), for the state that the giver has pinned. Errors: kNotFound (there is no such
 * hand-over, or it is over), kUnavailable, kNoSpace, kInterrupted. */
atoll_result atoll_store_mount_offer(const atoll_store *store, const char *id, const char *directory,
                                     atoll_mount **out);

/* Both: calls `found` with who has the table: 0 nobody yet, 1 this database has taken it, 2 another database
 * (`who`: which), 3 the giver has it again. `choice`: 0 only looks; 1 takes the table and 2 takes it back,
 * unless somebody has decided before. `is_taker`: the note of atoll_store_note_taking() names the giver; 0:
 * this database is the giver. Requests: a GET or a PUT, two GETs when somebody has decided; for a taker a
 * GET. Errors: kUnavailable (the outcome is not known: call again with the same choice), kFenced, kNotFound
 * (no note). */
atoll_result atoll_store_decide(const atoll_store *store, const char *id, uint8_t is_taker, int choice,
                                void *context, void (*found)(void *context, int outcome, const char *who));

#ifdef __cplusplus
}
#endif
