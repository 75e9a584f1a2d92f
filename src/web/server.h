/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_SERVER_H
#define VIAL_WEB_SERVER_H

/*
 * The inside of the room. Two kinds of threads:
 *
 *   loop     waits for all connections; accepts and reads, and ends connections that
 *            are slower than they may be
 *   worker   runs one handler after the other; many, made when needed, in lanes
 *
 * libmicrohttpd has no thread of its own. Who runs it takes a turn (web_turn): the loop
 * when there is something to read, a worker when it has something to send, so that no
 * answer waits for another thread. A turn never blocks.
 *
 * A request is shared by the loop (until the exchange is over) and its worker
 * (until the handler returns), and goes with the second of them. A connection is
 * suspended whenever the loop would have to wait for the handler; whoever changes
 * that holds the request's lock.
 *
 * A body is whole before its handler begins, unless it flows (flow.c): then the loop
 * puts into a queue what the worker takes out, and waits while that is full.
 */

#include <microhttpd.h>
#include <pthread.h>

#include "base/str.h"
#include "web/web.h"

#define WEB_HEAD_BYTES (32u << 10) /* of a request's head and an answer's */
#define WEB_SMALL_BODY (1u << 20)  /* larger ones lie in a memfd */
#define WEB_PASS_OVER  (64u << 10) /* of a stranger's body, and none of it is kept */
#define WEB_ORIGINS    256u        /* kinds of addresses that are told apart */

/* A body while it comes in. */
struct body {
    struct str small;
    int fd; /* of a large one, or -1 */
    size_t len;
    void *map; /* of the large one, or NULL */
};

int body_add(struct body *b, const void *data, size_t len); /* 0 or -1 */
int body_end(struct body *b);                               /* it is whole; 0 or -1 */
const char *body_data(const struct body *b);
int body_fd(struct body *b);
void body_done(struct body *b);

/* A body that its handler takes while it comes. The request's lock holds for it. */
struct flow {
    bool on;
    bool ended;       /* all of it has come */
    struct str queue; /* what nobody has taken yet */
    uint64_t total;   /* bytes that came */
};

/* What a connection does now. */
enum phase {
    PHASE_IDLE,    /* no request, or not yet its whole head */
    PHASE_READING, /* a body */
    PHASE_BUSY,    /* a handler, or its answer: others look after that */
};

struct connection {
    struct connection *next, *previous;
    struct row *row; /* that it stands in; NULL: it has been dropped */
    void *caller;    /* whose place it has, or NULL */
    unsigned origin; /* where it came from, < WEB_ORIGINS */
    int fd;          /* libmicrohttpd's */
    char *target;    /* as the next request says it, until that begins; or NULL */
    bool has_peer;   /* over a unix socket: */
    pid_t pid;
    uid_t uid;
    char address[48]; /* of a TCP client, or "" */
    uint64_t looked;  /* 1 + READ, when bytes were last seen that nobody read; or 0 */
    bool told;        /* that it is late */
    enum phase phase;
    int64_t since_ns;
    size_t read; /* bytes of the body */
};

/* Connections, oldest first. */
struct row {
    struct connection *first, *last;
    unsigned count;
};

struct pair {
    size_t name, value; /* offsets in the request's text */
};

struct pairs {
    struct pair *items;
    size_t count;
};

struct web_request {
    struct web *web;
    struct connection *connection; /* the loop's */
    struct MHD_Connection *handle; /* until `over` */
    struct web_request *next;      /* waiting for a worker */
    struct str text;               /* all of the strings below */
    size_t method, path;
    size_t target; /* as it came, with its query */
    struct pairs headers, query;
    struct body body;
    struct flow flow;
    struct web_place place;
    uint64_t charged; /* of the caller's share of bodies */
    uint64_t paid;    /* of its share of answers */
    bool placed;      /* it has one of the caller's share of requests */
    bool has_peer;
    pid_t pid;
    uid_t uid;
    bool passed;      /* below the option of that name */
    char address[48]; /* of a TCP client, or "" */
    unsigned refusal; /* a status to be given once the body has come, or 0; the lock
                         holds for it while the body flows */
    const char *why;  /* static */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned owners;
    bool refused;   /* by the loop */
    bool cut;       /* the same, within its body */
    uint64_t came;  /* bytes of that */
    bool handed;    /* to a worker */
    bool suspended; /* the loop waits for the worker */
    bool woken;     /* not any more, but nobody has had a turn since */
    bool over;      /* the client has it all, or is gone */
    int gone_fd;    /* or -1 */
    struct MHD_Response *response;
    unsigned status;
    bool answered, streaming, ended, broken;
    struct strv headers_out; /* name, value, name, value … */
    struct str queue;        /* of a stream */
    size_t queue_at;
    uint64_t taken; /* bytes of it, by the loop */
    uint64_t given; /* bytes of it, by the handler */
    pthread_t worker;
    int room_fd; /* or -1 */
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t work, quiet;
    struct web_request *first, *last;
    unsigned threads, idle, waiting, busy;
    unsigned most;         /* that wait or are served */
    unsigned threads_most; /* that serve them */
    unsigned threads_kept; /* of these, when there is nothing to do */
    int nice;              /* of all of them */
    bool closing;
};

struct web {
    struct web_options options;
    struct MHD_Daemon *daemon;
    struct workers lanes[WEB_LANES];
    int ready_fd;             /* always readable */
    int ending_fd;            /* readable once web_close has begun */
    int nudge_fd;             /* readable: the loop shall look */
    unsigned char secret[16]; /* by which addresses become origins */

    pthread_mutex_t
        turn;       /* whoever runs libmicrohttpd has it; taken before any other */
    uint64_t moved; /* bytes of bodies and streams, by who has the turn */
    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t changed;
    struct row callers, strangers;
    unsigned origins[WEB_ORIGINS]; /* strangers that came from there */
    unsigned connection_count;
    unsigned exchanges; /* requests that are not over */
    uint64_t requests, refused;
    bool retired, draining, ending;
    bool quiet;   /* it listens no more */
    bool looping; /* the thread runs */
    pthread_t loop;
};

/* server.c */
/* One of the flags above, which others may be setting. */
bool server_is(struct web *web, const bool *flag);
/* Does what there is to do on all connections now. Nobody calls it in a turn, or with a
 * lock. */
void web_turn(struct web *web);
/* Has the loop do the same. */
void web_nudge(struct web *web);

/* incoming.c */
struct web_request *request_new(struct web *web, struct MHD_Connection *handle,
                                const char *method, const char *target);
void request_unref(struct web_request *req);
/* Who C is, seen once. */
void request_look_at_peer(struct connection *c, int fd);
/* A status to refuse with, and *WHY; 0: it is good. */
unsigned request_judge(const struct web_request *req, const char **why);
/* The length it announces; -1: none. */
int64_t request_length(const struct web_request *req);
bool request_has_body(const struct web_request *req);
/* Takes MORE of its caller's share of bodies, until it ends. False: there is none. */
bool request_charge(struct web_request *req, size_t more);
void request_over(struct web_request *req);

/* flow.c, in the loop */
/* What came of a body that flows: some of it is left, and the connection suspended,
 * when the queue is full. */
void flow_take(struct web_request *req, const char *data, size_t *len);
/* It is more than a body may have. */
void body_too_large(struct web_request *req);
/* No more comes. Whether it is answered by now; else the connection is suspended. */
bool flow_end(struct web_request *req);
/* A smaller body is whole before its handler. */
#define FLOW_BEGINS ((size_t)64 << 10)
/* So many bytes wait for the handler. */
#define FLOW_BYTES ((size_t)256 << 10)
/* Of the caller's share: those, and what the handler has in hand. */
#define FLOW_CHARGE (4 * FLOW_BYTES)

/* answer.c */
/* With the request's lock held: there is something to do on its connection once that is
 * let go of, if it was suspended. */
void answer_wake(struct web_request *req);
/* Gives the loop what there is to send. */
enum MHD_Result answer_queue(struct web_request *req, struct MHD_Connection *handle);
/* Takes RESPONSE, which may be NULL for lack of memory, as the answer; 0 or -1. */
int answer_give(struct web_request *req, unsigned status, const char *type,
                struct MHD_Response *response);
/* What was set for it, in an answer of either kind. */
void answer_headers(const struct web_request *req, struct MHD_Response *response);
/* An error by the server itself, as all errors look. */
struct MHD_Response *answer_refusal(unsigned status, const char *why,
                                    const struct web_place *place);
/* The same on a connection that libmicrohttpd is about to end without a word. */
void answer_late(const struct web *web, int fd, unsigned status, const char *why);
/* The handler has returned. */
void answer_finish(struct web_request *req);

/* worker.c */
/* W has how many may wait, how many threads serve and stay, and their nice. */
int workers_init(struct workers *w);
int workers_give(struct workers *w, struct web_request *req); /* -1: too many */
void workers_wait(struct workers *w); /* until all handlers have returned */
void workers_done(struct workers *w);
unsigned workers_busy(struct workers *w);
/* What follows takes a processor long: if this is REQ's worker, who serves others comes
 * first, and the thread ends with REQ. */
void worker_stand_back(const struct web_request *req);

/* connections.c */
void sweep_add(struct web *web, struct connection *c, int fd);
void sweep_remove(struct web *web, struct connection *c);
void sweep_phase(struct web *web, struct connection *c, enum phase phase);
/* It is CALLER's from now on; false: CALLER has as many as it may. */
bool sweep_know(struct web *web, struct connection *c, void *caller);
/* Ends those that are too slow. */
void sweep(struct web *web);
/* Ends those whose bytes libmicrohttpd has no room for. After rounds of it in which
 * there always was more to do. */
void sweep_stuck(struct web *web);

#endif
