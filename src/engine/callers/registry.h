/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_CALLERS_REGISTRY_H
#define VIAL_ENGINE_CALLERS_REGISTRY_H

/*
 * The sessions that a front end (MCP server, daemon) holds for its callers: found
 * by id, seen by their owner only, forgotten a while after they have ended. All
 * functions may be called from several threads. What a session costs is given back once
 * its owner has stopped it and nobody holds it; how it ended stays known for a while,
 * of so many sessions of each owner.
 *
 *   registry_open -> { start | take -> … -> release | stop | look | list }* ->
 *   registry_close
 *
 * A call on a session that is being stopped fails with VIAL-SESSION; closing waits
 * for such calls to be released.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/context.h"
#include "vial/files.h"
#include "vial/session.h"

struct registry;

struct registry_options {
    struct vial_engine *engine; /* outlives the registry */
    unsigned sessions;          /* the most open at once; 0: 1024 */
    unsigned per_owner;         /* the same for one owner; 0: as many */
    bool shared;                /* then: as many as leave some for others */
    int64_t keep_ended_ms;      /* an ended one can still be read; 0: 5 min */
    /* Told, once in a while, how much more cpu time OWNER's sessions have used; must
     * not wait. Or NULL. */
    void (*used)(void *context, const char *owner, double cpu_ms);
    void *context;
    uint64_t kept_bytes; /* as in the sessions' options, for those without */
};

/* A session, held: it is not given back while someone has it. */
struct registered {
    const char *id;    /* "s-…" */
    const char *owner; /* whoever started it; "" in a server with one caller */
    struct vial_session *session;
};

int registry_open(const struct registry_options *options, struct registry **out,
                  struct vial_error *err);
/* Later sessions are opened by ENGINE; those that are there keep theirs, which has to
 * outlive them. */
void registry_use(struct registry *registry, struct vial_engine *engine);
void registry_close(
    struct registry *registry); /* ends all as failed; NULL is allowed */

/* Opens a session for OWNER (copied). *OUT is released by the caller.
 * VIAL-BUSY when there are too many. */
int registry_start(struct registry *registry, const char *owner,
                   const struct vial_request *req,
                   const struct vial_session_options *options, struct registered **out,
                   struct vial_error *err);

/* VIAL-SESSION when OWNER has none with that id, or has stopped it. */
int registry_take(struct registry *registry, const char *owner, const char *id,
                  struct registered **out, struct vial_error *err);
void registry_release(struct registry *registry, struct registered *held);

/* Whose session ID is; false: nobody's. */
bool registry_owner(struct registry *registry, const char *id, char *out, size_t size);

/* How one gets on, or how it ended. */
int registry_look(struct registry *registry, const char *owner, const char *id,
                  struct vial_session_report *out, struct vial_error *err);

/* Ends it (completed) and gives it back. One that was stopped before is good. */
int registry_stop(struct registry *registry, const char *owner, const char *id,
                  struct vial_error *err);

/* Execs of a session by small numbers, so that a later call finds them again. An
 * exec is used between add or exec and exec_done; one that has ended and is used by
 * nobody makes room for later ones (256 are kept), and all go with the session. */
int registered_add_exec(struct registered *held, struct vial_exec *exec,
                        unsigned *number, struct vial_error *err);
struct vial_exec *registered_exec(struct registered *held,
                                  unsigned number); /* or NULL */
void registered_exec_done(struct registered *held, unsigned number);

/* The context of LANGUAGE with that NAME ("" for the usual one), opened at first
 * use; it lives as long as the session. VIAL-BUSY when there are too many. */
int registered_context(struct registered *held, const char *language, const char *name,
                       struct vial_context **out, struct vial_error *err);
/* The same if it is open already, or NULL. */
struct vial_context *registered_open(struct registered *held, const char *language,
                                     const char *name);

/* How many sessions OWNER has (NULL: everyone); ONLY_OPEN: of those that are open. *OUT
 * is malloc'ed and has their reports, the oldest first; NULL for lack of memory, and 0
 * is returned. OUT may be NULL. */
size_t registry_reports(struct registry *registry, const char *owner, bool only_open,
                        struct vial_session_report **out);
/* OWNER's sessions as JSON, each with id, outcome, driver, level, execs, age. NULL
 * without memory. */
json_t *registry_list(struct registry *registry, const char *owner);

#endif
