/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_RELAY_INSIDE_H
#define VIAL_RELAY_INSIDE_H

/* What the files of this room have of each other. */

#include <sys/types.h>

#include "relay/relay.h"

enum tag_kind { TAG_LINK = 1, TAG_OWN = 2, TAG_OTHER = 3 };

#define RELAY_EDGES (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* relay.c */
void relay_finish(struct relay *r, struct relay_channel *c, bool reset);

/* rest.c: LEN bytes fit into CAP beside what is there; false without memory. */
bool rest_keep(struct relay_rest *rest, const uint8_t *data, size_t len, size_t cap);
void rest_eat(struct relay_rest *rest, size_t len);
void rest_free(struct relay_rest *rest);

/* direct.c: channels whose two connections are both here */
static inline bool is_direct(const struct relay_channel *c)
{
    return c->other.fd >= 0;
}
/* Reads the link, as recv does, and keeps a descriptor that comes along. */
ssize_t direct_receive(struct relay *r, void *to, size_t most);
/* The descriptor that came with a frame; -1: none, or it is no connection. */
int direct_claim(struct relay *r);
void direct_turn_away(int fd); /* at once, and it hears so */
void direct_begin(struct relay *r, struct relay_channel *c, int fd);
void direct_turn(struct relay *r, struct relay_channel *c);
bool direct_wants_turn(const struct relay_channel *c);
void direct_drop(struct relay *r, struct relay_channel *c);
void direct_done(struct relay *r);
/* FRAME with FD; false: it cannot go now. */
bool direct_send(struct relay *r, const uint8_t *frame, size_t len, int fd);

#endif
