/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_CLIENT_ASK_H
#define VIAL_KEEPER_CLIENT_ASK_H

/* The front's side of what talk.h describes. WHAT is for messages: "open the vessel".
 */

#include "keeper/talk/talk.h"

#define ASK_MS 10000 /* for a keeper that is being started anew */

/* Asks the keeper at FD; the near end of the question's pair, or -1. */
int ask_send(int fd, const struct pack *p, const char *what, struct vial_error *err);

/* A good answer: U reads what is behind TALK_GOOD. Zero-initialised before. */
struct heard {
    uint8_t *data;
    struct unpack u;
    struct talk_fds fds;
};
void heard_done(struct heard *h);
#define auto_heard __attribute__((cleanup(heard_done)))

/* Waits for the answer to be good. */
int ask_hear(int fd, int timeout_ms, struct heard *out, const char *what,
             struct vial_error *err);

/* A question with one answer. */
int ask_once(int fd, enum talk_verb verb, struct heard *out, const char *what,
             struct vial_error *err);

/* As poll: 1 when FD is ready, or its other side is gone. */
int ask_wait(int fd, short events, int timeout_ms);

/* VIAL_E_KEEPER: it is gone. */
int ask_gone(struct vial_error *err, const char *what);

#endif
