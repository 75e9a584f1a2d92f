/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_SESSION_H
#define VIAL_ENGINE_SESSION_SESSION_H

/*
 * The heart of a session: a vessel, its link, and the one thread that opens the
 * vessel, reads what the guest says, holds all deadlines and destroys the vessel
 * in the end. (It opens it too because the guest dies with the thread that
 * started it.)
 *
 * Callers do their part themselves, under the lock: they queue frames, write them
 * with session_flush and wait for news with session_wait. Only the session's own
 * thread reads the stream and runs link events, with the lock held.
 */

#include <pthread.h>

#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/run/bounded_output.h"
#include "engine/run/verdict.h"
#include "engine/session/spool.h"

#include "vial/session.h"

#define SESSION_EXECS    200   /* running at once; the rest of the channels: files */
#define SESSION_STUCK_MS 30000 /* a guest that has not moved for so long is lost */
#define SESSION_NEVER    INT64_MAX

/* How far a reader is. */
struct pace {
    uint64_t seen; /* offset up to which somebody has read */
    size_t owed;   /* bytes that came and for which no credit was given yet */
};

/* A program that runs, or has run. Owned by its session, though callers hold it. */
struct vial_exec {
    struct vial_session *session;
    struct vial_exec *next;
    uint32_t channel;         /* 0 once it has ended */
    struct spool spool[2];    /* stdout, stderr */
    struct output *collected; /* two, which get all output as well; or NULL; borrowed */
    struct pace pace[2];
    unsigned followers; /* who shall miss nothing */
    bool given_up;      /* on those who follow, until they read again */
    int64_t read_ns;    /* when they last did */
    struct blob input;  /* whole stdin, what is left of it from input_sent on */
    size_t input_sent;
    bool terminal;
    bool lasting;                  /* a context's interpreter */
    bool live;                     /* stdin is the caller's, and open */
    bool overdue;                  /* its first deadline is over */
    enum run_end end;              /* why it was killed by us, or RUN_GOING */
    unsigned limits_hit;           /* once it has ended */
    uint32_t alive;                /* others in the vessel, when it ended */
    int64_t begun_ns, deadline_ns; /* SESSION_NEVER once it was killed */
    int64_t lost_ns;               /* then: when the guest counts as stuck */
    char *program, *cwd;           /* for messages */
    char *correlation;             /* its own, or NULL: the session's */
    uint64_t number;               /* in its session, from 1 on */
    uint64_t oom_before;           /* kills for memory before it began */
    void (*ended)(void *context);  /* NULL once it was called */
    void *context;
    struct vial_network *network; /* what was reached, once it has ended; or NULL */
    struct vial_exec_status status;
};

/* A file under way; lives on its caller's stack. */
struct session_op {
    struct session_op *next;
    uint32_t channel; /* 0 once it is done */
    struct str got;   /* arrived, not yet taken: at most WIRE_CREDIT bytes */
    int error;        /* positive errno */
    bool passive;     /* does not keep an idle session alive */
};

struct vial_session {
    struct vial_engine *engine;
    const struct driver *driver;
    struct plan *plan;
    struct vessel *vessel;      /* NULL once it is gone; the thread's after the end */
    struct network_place place; /* of its gate, in the caller's share */
    char *workdir;              /* where the plan's really is, inside */
    struct vial_session_options options;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wake_fd; /* written to make the thread look again */
    struct conversation talk;

    bool ready; /* the vessel is open, or will never be */
    bool lost;  /* its guest went away, and the driver is to say why */
    bool gone;  /* the vessel was destroyed */
    bool news;  /* to be told to those who wait */
    enum vial_outcome outcome;
    struct vial_error error;
    struct vial_session_report report; /* what never changes, and the last usage */
    int64_t opened_ns, ended_ns, active_ns, lease_ns, wakes_ns, meter_ns;
    int64_t stop_ns;   /* until then its programs may end by themselves; 0: not asked */
    bool stopping;     /* they were asked */
    uint64_t oom_seen; /* kills for memory that ended programs */
    bool cpu_spent;    /* its programs have used up their cpu time */

    int64_t slept_ns;  /* how long it was frozen before */
    int64_t paused_ns; /* since when it is frozen; 0: it is not */
    int64_t paused_most_ms;
    bool wakes_by_use; /* then any use lets it go on */
    bool pausing;      /* somebody is about to freeze it */
    bool saving;       /* its files are being saved: uses wait while it is frozen */

    struct vial_exec *execs;
    struct spool_payer payer;
    uint64_t kept_bytes; /* of all execs' spools */
    struct session_op *ops;
    unsigned running;
    bool held;                   /* somebody is about to use it: it is not idle */
    struct workspace *workspace; /* NULL: not an overlay; until the session is freed */
};

/* NULL without memory or descriptors. */
struct vial_session *session_new(struct vial_engine *e,
                                 const struct vial_session_options *options,
                                 struct vial_error *err);
/* Starts the thread, and with it the vessel of S->plan. */
int session_start(struct vial_session *s, struct vial_error *err);
void session_end(struct vial_session *s, enum vial_outcome outcome,
                 const struct vial_error *err);
void session_free(struct vial_session *s);

/* All below: with the lock held. */
void session_lock(struct vial_session *s);
bool session_try_lock(struct vial_session *s); /* false: somebody has it */
void session_unlock(struct vial_session *s);
/* Counts as activity; fails with VIAL_E_SESSION once it has ended, and with
 * VIAL_E_PAUSED while it is frozen and no use wakes it. */
int session_touch(struct vial_session *s, struct vial_error *err);
int session_fail_ended(const struct vial_session *s, struct vial_error *err);
void session_flush(struct vial_session *s);
/* Until there is news, or UNTIL_NS. False: that moment has come. */
bool session_wait(struct vial_session *s, int64_t until_ns);
void session_wake(struct vial_session *s); /* a deadline may have become earlier */

/* pause.c */
int session_freeze(struct vial_session *s, bool reclaim, struct vial_error *err);
int session_resume(struct vial_session *s, struct vial_error *err);
int session_check_awake(struct vial_session *s, struct vial_error *err);
int64_t session_slept_ns(struct vial_session *s); /* paused so far; takes the lock */

/* exec.c: what happens to execs, from the thread. */
/* LASTING: no deadline but the session's own. */
int exec_new(struct vial_session *s, const struct vial_exec_options *o, bool lasting,
             struct vial_exec **out, struct vial_error *err);
/* The same, for who has not the lock, and it is sent. */
int exec_start(struct vial_session *s, const struct vial_exec_options *o, bool lasting,
               struct vial_exec **out, struct vial_error *err);
int exec_check_size(unsigned rows, unsigned columns, struct vial_error *err);
/* Whether a program of S may be root. */
int session_check_root(const struct vial_session *s, struct vial_error *err);
struct vial_exec *exec_find(const struct vial_session *s, uint32_t channel);
void exec_feed(struct vial_exec *x); /* whole stdin, within credit */
void exec_exited(struct vial_exec *x, const struct exit_message *m);
void exec_failed(struct vial_exec *x, uint32_t step, int error);
/* Its session has ended; ERR says how. */
void exec_ended(struct vial_exec *x, const struct vial_error *err);
int64_t exec_check_time(struct vial_exec *x, int64_t now_ns); /* when to look again */
void exec_release(struct vial_exec *x);
void exec_kill(struct vial_exec *x, enum run_end why);

/* exec_output.c: what is kept of their output. */
void exec_output_open(struct vial_session *s);
void exec_output_init(struct vial_exec *x);
void exec_output(struct vial_exec *x, int stream, const uint8_t *data, size_t len);
/* Somebody has read STREAM up to OFFSET. */
void exec_output_seen(struct vial_exec *x, int stream, uint64_t offset);
/* Between these two the program waits for its reader. */
void exec_output_follow(struct vial_exec *x, const uint64_t from[2]);
void exec_output_leave(struct vial_exec *x);
/* It waits no longer. True: it had waited. */
bool exec_output_release(struct vial_exec *x);
int64_t exec_output_check(struct vial_exec *x, int64_t now_ns); /* as exec_check_time */
void exec_output_end(struct vial_exec *x);
/* The session has ended. */
void exec_output_close(struct vial_session *s);

/* open.c: as vial_session_open; a HELD session is in use from its first moment on. */
int session_open(struct vial_engine *engine, const struct vial_request *req,
                 const struct vial_session_options *options, bool held,
                 struct vial_session **out, struct vial_error *err);
/* Refuses programs of L, whose filter the vessel would have to have from its start. */
int session_check_profile(const struct vial_session *s, const struct language *l,
                          struct vial_error *err);
#define SESSION_LONGEST_MS (INT64_C(24) * 60 * 60 * 1000) /* of a lease, and idle */
/* Refuses what is not in 0 … MOST. */
int session_check_number(const char *name, int64_t value, int64_t most,
                         struct vial_error *err);

#endif
