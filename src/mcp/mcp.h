/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_MCP_H
#define VIAL_MCP_MCP_H

/*
 * The protocol, independent of how messages travel. Two eras are spoken, chosen for
 * each request: the stateless one (2026-07-28: every request says who asks), and the
 * elder ones, in which a client says so once, by `initialize`, and is a peer then.
 *
 *   mcp_open -> { a transport hands over messages }* -> mcp_close
 *
 * A transport reads messages (rpc_read), fills an exchange for each request and
 * calls mcp_answer, in a thread that may block. What a call says while it runs goes
 * through the exchange's `send`, in the same thread.
 */

#include "engine/callers/gate.h"
#include "mcp/rpc.h"
#include "mcp/tool.h"

#define MCP_META "io.modelcontextprotocol/"

struct mcp;
struct mcp_peer;

/* What a server shows besides tools. CONTEXT is handed to all of them. */
struct mcp_resources {
    void *context;
    json_t *(*list)(void *context, const char *owner); /* array, in a fixed order */
    json_t *(*templates)(void *context);               /* array */
    /* An array of contents. Not there: RPC_NO_RESOURCE. *PAID was taken for them from
     * the gate's budget, whatever is returned: mcp_give_back gives it back. */
    int (*read)(void *context, const char *owner, const char *uri, json_t **out,
                uint64_t *paid, struct rpc_error *err);
    /* Values for a template's or prompt's argument, or NULL: none. May be NULL. */
    json_t *(*complete)(void *context, const char *owner, const json_t *params);
};

struct mcp_prompt {
    const char *name, *description;
    const char *const *arguments; /* NULL-terminated; each is required */
    /* Fills `content`, whose blocks become messages of the user. */
    void (*get)(struct mcp_call *call, struct mcp_answer *answer);
};

/* Lets calls that run programs in, one after the other if need be. */
struct mcp_gate {
    void *context;
    unsigned calls; /* the most that run and wait; 0: the server's own number */
    struct vial_budget *budget; /* for what answers hold; NULL: they may hold any */
    /* Waits for the owner's turn, or until the call is cancelled. */
    int (*enter)(void *context, const struct mcp_call *call, struct gate_pass *pass,
                 struct vial_error *err);
    void (*leave)(void *context, struct gate_pass *pass, double cpu_ms);
    /* CALL was turned away, by `enter` or before it: for the audit log. NULL: nobody
     * wants to know. */
    void (*refused)(void *context, const struct mcp_call *call,
                    const struct vial_error *why);
    /* A run of LANGUAGE or so begins: what stands for it until its end, and in
     * *CANCEL_FD what ends it from then on. NULL: nobody keeps account of it. */
    void *(*begin)(void *context, const struct mcp_call *call, const char *language,
                   int *cancel_fd);
    /* RESULT NULL: there is none, since memory was short. */
    void (*end)(void *context, void *run, const struct vial_result *result);
};

struct mcp_options {
    struct vial_engine *engine; /* these outlive the server */
    struct registry *registry;
    struct mcp_runs *runs;
    const struct mcp_tools *tools;
    const struct mcp_resources *resources; /* NULL: none */
    const struct mcp_prompt *prompts;      /* up to one without a name; NULL: none */
    const char *name, *title, *instructions;
    bool lists_change;     /* tools and prompts may come and go */
    int64_t task_after_ms; /* a call that runs becomes a task */
    unsigned calls;        /* the most tools at work at once; 0: 64 */
    struct mcp_gate gate;  /* enter NULL: none */
};

/* A transport had no room for a request of OWNER's: the gate is told. */
void mcp_tell_refused(struct mcp *mcp, const char *owner, const struct vial_error *why);

int mcp_open(const struct mcp_options *options, struct mcp **out,
             struct vial_error *err);
/* Ends tasks and waits for them. No exchange may be under way. NULL is allowed. */
void mcp_close(struct mcp *mcp);

/* Tells all who listen: "tools", "prompts" or "resources" for a changed list, or the
 * URI of a resource that changed. */
void mcp_changed(struct mcp *mcp, const char *what);

/* A client of the elder era: one process at the other end of stdio, or one session
 * over HTTP. SEND gets what nobody asked for, from any thread, and takes it. */
typedef void mcp_send(void *transport, json_t *message);
struct mcp_peer *mcp_peer_new(struct mcp *mcp, mcp_send *send, void *transport);
/* Cancels all its requests, and waits for them. NULL is allowed. */
void mcp_peer_free(struct mcp_peer *peer);
/* The version that was agreed upon, or "". */
const char *mcp_peer_version(const struct mcp_peer *peer);

/* One request and the way its answer goes. */
struct mcp_exchange {
    struct mcp *mcp;
    struct mcp_peer *peer; /* NULL: the stateless era only */
    const char *owner;
    const char *correlation; /* what the transport calls it, for logs; or NULL */
    const struct rpc_message *message;
    int cancel_fd; /* readable: the client gave up */
    /* Sends a message that is not the answer, and takes it; NULL: a sign of life, where
     * the transport has one. From this exchange's thread only. */
    void (*send)(struct mcp_exchange *x, json_t *message);
    void *transport;
    uint64_t paid; /* for the answer, from the gate's budget */
};

/* The answer was given: what was paid for it comes back. */
void mcp_give_back(struct mcp_exchange *x);

/* True if MESSAGE is of the stateless era. HEADER is the version that came beside
 * it, or NULL. */
bool mcp_is_modern(const struct rpc_message *message, const char *header);

/* True if the answer may take long, so that a transport with one reader better gives
 * it a thread. */
bool mcp_is_slow(const char *method);

/* The answer to a request: a whole message. *STATUS is for HTTP. */
json_t *mcp_answer(struct mcp_exchange *x, bool modern, unsigned *status);

/* Requests of a peer that are under way, by id, so that they can be cancelled.
 * begin: -1 when the id is in use, or the peer is going away; *CANCEL_FD is borrowed
 * until end. The return of end tells whether the request was cancelled, and wants no
 * answer. */
struct mcp_flight;
int mcp_flight_begin(struct mcp_peer *peer, const json_t *id, struct mcp_flight **out,
                     int *cancel_fd, struct rpc_error *err);
bool mcp_flight_end(struct mcp_peer *peer, struct mcp_flight *flight);

/* Takes in a notification; answers are ignored, since we ask nothing. After
 * notifications/cancelled the request is over when this returns (or cannot be ended
 * within two seconds). */
void mcp_take(struct mcp_peer *peer, const struct rpc_message *message);

/* Cancels everything of the peer: nobody is there any more. */
void mcp_peer_cancel_all(struct mcp_peer *peer);

#endif
