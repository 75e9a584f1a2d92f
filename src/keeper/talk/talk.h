/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_TALK_TALK_H
#define VIAL_KEEPER_TALK_TALK_H

/*
 * What front and keeper say to each other, in whole messages (SOCK_SEQPACKET).
 *
 * The front asks on the one socket that it shares with the keeper: a verb, what
 * belongs to it, and one end of a socket pair made for this question. The answer
 * comes over that pair. For a vessel the pair stays: it is the vessel's leash. More
 * verbs go over it, and the vessel ends when the front lets go of it.
 *
 *   asked on the shared socket      answered on the pair
 *   TALK_PING                       TALK_GOOD, pid, vessels, restarts
 *   TALK_PROBE                      TALK_GOOD, caps                | TALK_BAD, error
 *   TALK_OPEN, plan                 TALK_GOOD, vessel, descriptors | TALK_BAD, error
 *   TALK_SWEEP                      TALK_GOOD, how many went       | TALK_BAD, error
 *   TALK_ZYGOTE, how, plan          TALK_GOOD, number              | TALK_BAD, error
 *   TALK_IMAGES                     TALK_PART*, TALK_GOOD, text    | TALK_BAD, error
 *   TALK_VESSELS                    the same: the engine's, whoever made them
 *   TALK_PRUNE, all                 the same
 *   TALK_PULL, name, ms             TALK_STEP*, then the same
 *   TALK_FORGET, name               TALK_GOOD                      | TALK_BAD, error
 *   TALK_SAVED, owner               TALK_GOOD, names of snapshots  | TALK_BAD, error
 *   TALK_VOLUMES, name              TALK_GOOD, volumes behind it   | TALK_BAD, error
 *   TALK_VOLUME, name               TALK_GOOD, volume              | TALK_BAD, error
 *   TALK_VOLUME_MAKE, name, many,   TALK_GOOD                      | TALK_BAD, error
 *     size
 *   TALK_VOLUME_REMOVE, name        TALK_GOOD                      | TALK_BAD, error
 *
 *   then, on a vessel's pair
 *   TALK_STOP, TALK_KILL            nothing
 *   TALK_USAGE                      TALK_GOOD, usage
 *   TALK_COUNTERS                   TALK_GOOD, which, usage, descriptors
 *   TALK_LIMIT, limits              TALK_GOOD                      | TALK_BAD, error
 *   TALK_PAUSE, still, reclaim      TALK_GOOD                      | TALK_BAD, error
 *   TALK_FORK, zygote's number      TALK_GOOD, pid, descriptor     | TALK_BAD, error
 *   TALK_SNAPSHOT, name, descriptor TALK_GOOD: vial-image reports  | TALK_BAD, error
 *   TALK_CLOSE                      the end of the pair, when all is gone
 *
 * The keeper does not trust a byte of what it reads. Neither side ever waits for the
 * other to read.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/pack.h"

#include "vial/error.h"

#define TALK_SAVED_MAX     64u  /* snapshots of one owner, at most */
#define TALK_VOLUMES_MAX   256u /* volumes of one answer, at most */
#define TALK_VOLUME_PLACES 16u  /* questions for volumes at once; more: VIAL-BUSY */
#define TALK_MAX           (64u << 10) /* bytes of a message */
#define TALK_FDS           6           /* descriptors with one */

/* Fixed by whoever starts the program. */
#define KEEPER_FRONT_FD 3 /* the shared socket */
#define KEEPER_RULES_FD 4 /* a file with the rules */

/* Of a zygote that the front orders. */
#define ZYGOTE_ENV_MAX     64 /* entries of its environment */
#define ZYGOTE_IMPORTS_MAX 64

enum talk_verb {
    TALK_PING = 1,
    TALK_PROBE,
    TALK_OPEN,
    TALK_KILL,
    TALK_USAGE,
    TALK_CLOSE,
    TALK_GOOD,
    TALK_BAD,
    TALK_ZYGOTE,
    TALK_LIMIT,
    TALK_FORK,
    TALK_SWEEP,
    TALK_IMAGES,
    TALK_VESSELS,
    TALK_PRUNE,
    TALK_PULL,
    TALK_STEP,
    TALK_PART,
    TALK_STOP,
    TALK_COUNTERS,
    TALK_PAUSE,
    TALK_SNAPSHOT,
    TALK_FORGET,
    TALK_SAVED,
    TALK_VOLUMES,
    TALK_VOLUME,
    TALK_VOLUME_MAKE,
    TALK_VOLUME_REMOVE
};

struct talk_fds {
    int fd[TALK_FDS]; /* owned; close-on-exec */
    size_t count;
};
void talk_fds_done(struct talk_fds *fds);
#define auto_talk_fds __attribute__((cleanup(talk_fds_done)))

/* 0 or -errno. -EAGAIN: the other side does not read. */
int talk_send(int fd, const struct pack *p, const int *fds, size_t count);

/* Bytes of the next message; 0: the other side is gone; or -errno. A message that is
 * too long, or brings more descriptors than TALK_FDS, is -EMSGSIZE, and gone. FDS may
 * be NULL: then any descriptor makes it so. Waits only if FD is blocking. */
ssize_t talk_receive(int fd, uint8_t *buf, size_t size, struct talk_fds *fds);

/* The answer TALK_BAD. The reader bounds every text; a code it does not know becomes
 * VIAL_E_KEEPER. */
void talk_write_error(struct pack *p, const struct vial_error *err);
void talk_read_error(struct unpack *u, struct vial_error *out);

#endif
