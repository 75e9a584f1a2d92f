/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_CONVERSATION_H
#define VIAL_ENGINE_CONVERSATION_H

/*
 * A vessel's conversation with its guest. Whoever owns the vessel has one: a run, a
 * session, a pool that makes it ready. Nobody else reads or writes its stream, or waits
 * for its guest's death and for the kernel's word about its limits.
 *
 *   conversation_begin -> { queue on LINK, conversation_run }* -> conversation_end
 *
 * conversation_run goes turn by turn until conversation_stop: it writes what is queued,
 * waits, and has what came judged by the link, which tells the owner. It needs no
 * thread of its own; an owner who has one gives `unlock` and `lock`, and others may
 * then queue frames while it waits, under that lock, and write them by
 * conversation_flush.
 */

#include "base/loop.h"
#include "driver/driver.h"
#include "wire/link.h"

/* What an owner is told. Any but `lost` may be NULL. */
struct conversation_owner {
    struct link_events guest; /* what the guest reports */
    /* The guest went away; or, where WHY is not NULL, nothing more can be said to it:
     * it broke the rules, or there is no memory. The owner stops; it may be told more
     * than once. */
    void (*lost)(void *context, const struct vial_error *why);
    void (*turn)(void *context);   /* before each wait: do what is due, or stop */
    void (*more)(void *context);   /* the stream takes more: queue what was held back */
    void (*due)(void *context);    /* the moment of conversation_due has come */
    void (*limit)(void *context);  /* the kernel says that a limit was touched */
    void (*unlock)(void *context); /* before each wait … */
    void (*lock)(void *context);   /* … and after it */
};

struct conversation {
    const struct vessel *vessel; /* borrowed */
    struct link *link;
    struct loop loop; /* owners may add their own descriptors and timers */
    uint8_t *buffer;  /* one read from the stream; between two, free for others */
    size_t buffer_size;
    const struct conversation_owner *owner; /* outlives it */
    void *context;
    int stream_slot, event_slot, due_slot;
};

/* LINK is taken, as it was left by conversation_leave; NULL: none has spoken with the
 * guest yet, and it is told first how to confine programs. Whatever this returns,
 * conversation_end or _leave must follow. */
int conversation_begin(struct conversation *c, const struct vessel *vessel,
                       struct link *link, const struct conversation_owner *owner,
                       void *context, struct vial_error *err);
void conversation_end(struct conversation *c); /* all zero is allowed */
/* The same, but the link is the caller's, for another owner. May be NULL. */
struct link *conversation_leave(struct conversation *c);

/* Until conversation_stop; -1 if waiting itself fails. */
int conversation_run(struct conversation *c, struct vial_error *err);
void conversation_stop(struct conversation *c);
/* The one deadline, as a moment; LOOP_NEVER: none. */
void conversation_due(struct conversation *c, int64_t due_ns);
/* From now on `limit` is told. False: the vessel has no such events. */
bool conversation_watch_limits(struct conversation *c);
/* Writes what is queued, as far as the stream takes it. True: something is left. */
bool conversation_flush(struct conversation *c);
/* Between two conversations: the guest lives and says nothing. One that speaks before
 * it is asked is none of ours any more. */
bool conversation_is_quiet(const struct vessel *vessel);
/* Between two conversations: writes all that is queued, and FD with it, in one go. */
int conversation_send_fd(const struct vessel *vessel, struct link *link, int fd,
                         struct vial_error *err);
/* What lay in the stream when the guest died, or was killed, still counts. */
void conversation_drain(struct conversation *c);
/* GOT bytes were read into the buffer: if they filled it, the next read may be larger.
 */
void conversation_grow(struct conversation *c, size_t got);

#endif
