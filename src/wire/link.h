/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_LINK_H
#define VIAL_WIRE_LINK_H

/*
 * The host's half of the wire: a state machine without any I/O. The owner
 * writes link_pending() bytes to the stream (then link_sent), and feeds what it
 * reads to link_feed. Every byte from the guest is judged: a frame that does
 * not fit the state of its channel, exceeds its credit or is malformed makes
 * link_feed fail, after which the link is dead and the vessel must be killed.
 *
 *   link_new -> link_jail -> { link_exec | link_put | link_get | link_list |
 *            link_name }* -> link_free
 *
 * Requests may be queued before the guest's HELLO has come.
 */

#include <stdbool.h>

#include "wire/message.h"

#include "vial/error.h"

struct link;

/* The guest's reports, as callbacks from link_feed. CHANNEL is what the request
 * returned. Any may be NULL. */
struct link_events {
    /* PID: its number inside, as the guest says. */
    void (*started)(void *context, uint32_t channel, uint32_t pid);
    /* Bytes of stream 1 or 2. They are granted again as credit when the owner
     * calls link_consumed; until then at most WIRE_CREDIT are outstanding. */
    void (*data)(void *context, uint32_t channel, int stream, const uint8_t *data,
                 size_t len);
    void (*eof)(void *context, uint32_t channel, int stream);
    void (*exited)(void *context, uint32_t channel, const struct exit_message *exit);
    void (*failed)(void *context, uint32_t channel, uint32_t step, int error);
    /* System call NUMBER was refused COUNT times so far. */
    void (*denied)(void *context, uint32_t channel, uint32_t number, uint64_t count);
    /* PUT, GET, LIST and NAME end here; ERROR is 0 or a positive errno. */
    void (*done)(void *context, uint32_t channel, int error, const char *text);
    /* Stdin or PUT content may be sent again: link_writable > 0. */
    void (*writable)(void *context, uint32_t channel);
};

struct link *link_new(const struct link_events *events, void *context); /* or NULL */
void link_free(struct link *l);

/* Another owner, from now on. */
void link_rebind(struct link *l, const struct link_events *events, void *context);

int link_jail(struct link *l, const struct jail *jail, struct vial_error *err);
/* The next exec is done by the process PID, which waits at the other end of the
 * descriptor that goes with this frame. */
int link_adopt(struct link *l, uint32_t pid, struct vial_error *err);
/* Instead: someone else has greeted the guest and told it its jail. Nothing has been
 * sent over this link yet. */
void link_jailed(struct link *l);

/* The next exec's program, or who does the next thing to a file at an absolute path, is
 * root; to be called right before that is asked for, whatever that comes to. */
void link_root(struct link *l);

/* Each opens a channel and returns its number (> 0) in *CHANNEL. */
int link_exec(struct link *l, const struct exec_message *m, uint32_t *channel,
              struct vial_error *err);
int link_put(struct link *l, const struct put_message *m, uint32_t *channel,
             struct vial_error *err);
int link_get(struct link *l, const struct get_message *m, uint32_t *channel,
             struct vial_error *err);
int link_list(struct link *l, const char *path, uint32_t *channel,
              struct vial_error *err);
int link_name(struct link *l, const struct name_message *m, uint32_t *channel,
              struct vial_error *err);
int link_watch(struct link *l, const struct watch_message *m, uint32_t *channel,
               struct vial_error *err);

/* Programs' time stands still, or goes on. */
int link_hold(struct link *l, bool still, uint32_t *channel, struct vial_error *err);

/* How many bytes may be sent on the channel's stream 0 now. */
size_t link_writable(const struct link *l, uint32_t channel);
/* LEN must be <= link_writable. After the exec has exited this does nothing. */
void link_send(struct link *l, uint32_t channel, const void *data, size_t len);
void link_send_eof(struct link *l, uint32_t channel);
/* Sends what may be sent now of the LEN bytes at DATA, from *SENT on, and behind the
 * last of them the end. True: that was sent. */
bool link_send_whole(struct link *l, uint32_t channel, const void *data, size_t len,
                     size_t *sent);

void link_signal(struct link *l, uint32_t channel, int signal, bool whole_tree);
void link_stop(struct link *l); /* all programs are asked to end, then the guest */
/* SIZE as in exec_message. */
void link_resize(struct link *l, uint32_t channel, uint32_t size);
/* No event of the channel comes any more. */
void link_close_channel(struct link *l, uint32_t channel);

/* The owner is done with LEN bytes it got on that stream. */
void link_consumed(struct link *l, uint32_t channel, int stream, size_t len);

/* Bytes waiting to be written; *LEN 0 when none. */
const uint8_t *link_pending(const struct link *l, size_t *len);
void link_sent(struct link *l, size_t len);

int link_feed(struct link *l, const uint8_t *data, size_t len, struct vial_error *err);
bool link_is_up(const struct link *l); /* the guest's HELLO has come */
bool link_out_of_memory(const struct link *l);

#endif
