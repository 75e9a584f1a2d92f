/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_WEB_H
#define VIAL_WEB_WEB_H

/*
 * An HTTP server for people who write handlers, on libmicrohttpd. One thread
 * waits for all connections; a handler runs in a thread of its own for as long
 * as its request lasts, and may block. Idle connections cost a descriptor and a
 * few KiB, never a thread. A client that reads slowly slows its own handler only.
 *
 * Who is not known yet has few connections, little time for its head, and no body;
 * when there are too many of those, the oldest of the address that has most goes.
 *
 *   web_open -> { handler -> reply, or start -> write* -> end }* -> web_close
 *
 * Nothing here knows of sandboxes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vial/error.h"

struct str;
struct web;
struct web_request;

/* Runs in its own thread, and has answered when it returns: a handler that did
 * not is answered for, with 500. */
typedef void web_handler(void *context, struct web_request *req);

/* A lane serves requests of one kind. Each lane has threads of its own, so that none
 * can hold up another. */
enum web_lane {
    WEB_CALLERS,   /* may block */
    WEB_STRANGERS, /* a few threads, for answers that are made at once */
    WEB_HEALTH,    /* the same, for those who ask whether the server lives */
    WEB_LANES,
};

/* The shared things of which a caller takes its part. */
enum web_share { WEB_CONNECTIONS, WEB_REQUESTS, WEB_BODIES, WEB_ANSWERS };

/* Where a request belongs, judged by its head alone. */
struct web_place {
    void *caller; /* NULL: not known, and so without a body */
    enum web_lane lane;
    unsigned status;    /* without a caller: what one with a body is refused with */
    const char *why;    /* static */
    bool coded;         /* refusals look like {"code": STATUS, "message": WHY} */
    bool flows;         /* its handler takes a body that is not small by web_read */
    const char *origin; /* of a page that may read refusals, the request's; or NULL */
};

/* The door knows callers, and counts what they take. Its functions must not wait. */
struct web_door {
    void (*place)(void *context, const struct web_request *req, struct web_place *out);
    void *(*peer)(void *context, uid_t uid); /* of a unix socket; NULL: not known */
    bool (*take)(void *context, void *caller, enum web_share share, size_t amount);
    void (*give)(void *context, void *caller, enum web_share share, size_t amount);
};

/* Zero-initialise; 0 and NULL mean the usual value. */
struct web_options {
    int listen_fd;        /* bound and listening; the server's once it is open */
    const char *tls_cert; /* PEM text, with tls_key; NULL: plain */
    const char *tls_key;
    size_t body_bytes;           /* the most a body may have; usual: 64 MiB */
    unsigned connections;        /* the most of callers' at once; usual: 12000 */
    unsigned strangers;          /* the same of who is not known; usual: 256 */
    unsigned handlers;           /* the most at once, then 503; usual: 1800 */
    const struct web_door *door; /* NULL: everybody is known, and nothing is counted */
    /* What unix peers ask for below it is seen without it, and web_passed says so; or
     * NULL. PASSED_MARK: a header that every answer to these has; or NULL. */
    const char *passed, *passed_mark;
    unsigned idle_s; /* a connection without a request; usual: 60 */
    int nice; /* of those who serve callers and strangers; the others have ours */
    unsigned slow_s; /* a request that does not get on; usual: 20 */
    /* Told of what the server itself refuses; must not wait. Or NULL. */
    void (*refused)(void *context, const struct web_request *req, unsigned status);
    web_handler *handler; /* for every request */
    void *context;
};

int web_open(const struct web_options *options, struct web **out,
             struct vial_error *err);

/* Another server has the socket now: no new connection comes here. Who is connected is
 * answered as ever, and each answer closes its connection. */
void web_retire(struct web *web);

/* No new connection and no new request from now on; handlers go on. */
void web_drain(struct web *web);

/* Waits for the handlers, then closes everything. NULL is allowed. */
void web_close(struct web *web);

struct web_counts {
    unsigned connections, handlers;
    uint64_t requests, refused;
};
void web_count(struct web *web, struct web_counts *out);

/* The request's parts. All text lives as long as the request. */
const char *web_method(const struct web_request *req);
const char *web_path(const struct web_request *req);   /* decoded; no NUL, no ".." */
const char *web_target(const struct web_request *req); /* as it came, with its query */
const char *web_query(const struct web_request *req, const char *name);  /* or NULL */
const char *web_query_name(const struct web_request *req, size_t index); /* or NULL */
const char *web_header(const struct web_request *req, const char *name); /* or NULL */
/* Its name, or NULL behind the last. */
const char *web_header_at(const struct web_request *req, size_t index,
                          const char **value);
bool web_header_repeated(const struct web_request *req, const char *name);
const char *web_body(const struct web_request *req, size_t *len); /* never NULL */

/* The body while it comes, of a request whose place says that it flows: what came since
 * is added to OUT. 1; 0: that was all; -1: the rest does not come, and NO says why. Of
 * a large body a few hundred KiB wait here, and the client with the rest. */
struct web_refusal {
    unsigned status; /* that the request is to be refused with; 0: the client is gone */
    const char *why; /* static */
};
int web_read(struct web_request *req, struct str *out, struct web_refusal *no);

/* The same body as a descriptor at its start, the request's; -1: no memory. For
 * bodies that are passed on. */
int web_body_fd(struct web_request *req);

/* Tells who asks over a unix socket; false on TCP. */
bool web_peer(const struct web_request *req, pid_t *pid, uid_t *uid);

/* Whether it came below the option `passed`. */
bool web_passed(const struct web_request *req);

/* Where a TCP client is, without its port; "" on a unix socket. */
const char *web_address(const struct web_request *req);

/* Readable once the client has gone away (one that only closes its sending side
 * counts as gone), or the server is being closed. Borrowed; -1: no descriptor left. */
int web_gone_fd(struct web_request *req);

/* A header of the answer, before reply or start. */
int web_set_header(struct web_request *req, const char *name, const char *value);

/* The whole answer. TYPE may be NULL when LEN is 0. */
int web_reply(struct web_request *req, unsigned status, const char *type,
              const void *data, size_t len);

/* The same, and DATA, malloc'ed, is the server's from now on. */
int web_give(struct web_request *req, unsigned status, const char *type, char *data,
             size_t len);

/* An answer in pieces, sent as they come. write blocks while more than 256 KiB
 * wait for the client; it gives -1 once the client is gone. */
int web_start(struct web_request *req, unsigned status, const char *type);
/* The same for LEN bytes in all, which the client is told first. */
int web_start_sized(struct web_request *req, unsigned status, const char *type,
                    uint64_t len);
int web_write(struct web_request *req, const void *data, size_t len);
void web_end(struct web_request *req);

/* For who must not wait: adds to an answer in pieces, however much waits already; the
 * caller sees to it that this stays bounded. -1: the client is gone. */
int web_push(struct web_request *req, const void *data, size_t len);
/* The caller pays for so much that waits, until the client has all or is gone. False:
 * it has no more. What is paid again adds to that. */
bool web_pay(struct web_request *req, size_t bytes);
/* Bytes that wait for the client, and how many it has taken so far. */
size_t web_queued(struct web_request *req, uint64_t *taken);
#define WEB_QUEUE_BYTES ((size_t)256 << 10) /* so many may wait */
/* Readable when fewer wait than that, since it was last emptied by web_room_clear; the
 * request's. -1: no descriptor left. */
int web_room_fd(struct web_request *req);
void web_room_clear(struct web_request *req);
/* The same for an answer that is not whole: the client sees that it is not. */
void web_abort(struct web_request *req);

#endif
