/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SESSION_H
#define VIAL_SESSION_H

/*
 * A vessel that stays open for several programs.
 *
 *   vial_session_open -> { exec | files | contexts }* -> vial_session_close
 *                     -> vial_session_free
 *
 * A session lives in this process and ends with it. It has a thread of its own,
 * so that deadlines hold and output is taken whether or not anyone waits. All
 * functions may be called from several threads at once; only the *_free ones
 * need that no other call on the same object is under way.
 *
 * Once a session has ended, by whatever reason, its vessel is gone, calls fail
 * with VIAL-SESSION, and what its programs wrote can still be read.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_session;
struct vial_exec;

/* Zero-initialise: 0 means the usual value everywhere. */
struct vial_session_options {
    int64_t idle_ms;         /* ends when nothing runs and nobody asks; usual: 10 min */
    int64_t lease_ms;        /* ends anyhow, unless renewed; usual: 1 h, at most 24 h */
    uint64_t ring_bytes;     /* of each output stream kept in memory; usual: 256 KiB */
    uint64_t spill_bytes;    /* and in an unlinked temporary file, but no more than the
                                request's output_limit; usual: 256 MiB */
    const char *caller;      /* for the audit, as in struct vial_watch; copied */
    const char *correlation; /* the same */
    /* While it is opened: who is told, and can cancel, when its image is pulled; NULL:
     * nobody. Of it cancel_fd, caller, pulling, context and local_images count. Called
     * from another thread, while vial_session_open waits. */
    const struct vial_watch *watch;
    uint64_t kept_bytes; /* of all its programs' output together, in memory and files;
                            usual: 256 MiB. What is beyond is lost, the oldest first,
                            and so is most of it once the session has ended */
};

enum vial_outcome {
    VIAL_SESSION_OPEN,
    VIAL_SESSION_COMPLETED, /* closed by its owner */
    VIAL_SESSION_FAILED,    /* closed as failed, or the vessel was lost */
    VIAL_SESSION_EXPIRED    /* idle for too long, or its lease ran out */
};

struct vial_session_report {
    enum vial_outcome outcome;
    struct vial_error error; /* code "" unless the vessel was lost or it expired */
    char id[24];             /* "s-…" */
    char vessel_id[32];
    char driver[16];
    char level[16];          /* as in a result */
    char limits_by[16];      /* as in a result */
    uint64_t execs;          /* started so far */
    double duration_ms;      /* since it was opened, or until it ended */
    struct vial_usage usage; /* of all its programs together; whole once it ended */
    char wanted_driver[16];  /* as in a result */
    bool paused;             /* it is open, and frozen */
};

/* Opens a vessel as REQ describes it: limits, network, mounts, driver, env, cwd.
 * Its files are put in; its code or command is not run, and need not be there.
 * `timeout` is the most a single exec may have. OPTIONS may be NULL. The engine
 * must outlive the session. */
VIAL_API VIAL_MUST_CHECK int vial_session_open(
    struct vial_engine *engine, const struct vial_request *req,
    const struct vial_session_options *options, struct vial_session **out,
    struct vial_error *err);

/* The lease now ends LEASE_MS from now (0: the length it was opened with). */
VIAL_API VIAL_MUST_CHECK int vial_session_renew(struct vial_session *session,
                                                int64_t lease_ms,
                                                struct vial_error *err);

/* Zero-initialise: 0 means the usual value. */
struct vial_pause_options {
    bool auto_resume; /* any use wakes it; else uses are refused with VIAL-PAUSED */
    bool reclaim;     /* what it has in memory and can be read again is given back */
    int64_t most_ms;  /* it ends once it was paused for so long; usual: 24 h */
};

/* Freezes it: no process of its vessel runs until it is resumed. Its lease, its idle
 * time and its programs' deadlines stand still; what its programs wrote can be read.
 * One that is paused already gets the new OPTIONS, which may be NULL. Closing and
 * killing work. VIAL-UNSUPPORTED where there is no control group to do it by. Its
 * memory stays: it is not saved anywhere, and a paused session ends with its process
 * like any other. */
VIAL_API VIAL_MUST_CHECK int vial_session_pause(
    struct vial_session *session, const struct vial_pause_options *options,
    struct vial_error *err);

/* Lets it go on; one that is not paused is good. */
VIAL_API VIAL_MUST_CHECK int vial_session_resume(struct vial_session *session,
                                                 struct vial_error *err);

struct vial_snapshot_options {
    const char *name;   /* of the image; one of that name is replaced */
    const char *config; /* a JSON object laid over the config of the image that the
                           session was opened of: "Env", "WorkingDir", "User",
                           "Entrypoint", "Cmd"; or NULL */
};

/* Saves its files as an image of the store, of which sessions and runs can be opened
 * any number of times: those of a native session whose root is an image and can be
 * written to (`root_mode: rw`). What lies in /tmp, /dev/shm and in mounts is not saved,
 * nor are programs and their memory: VIAL-UNSUPPORTED for any other session. It is
 * frozen while its files are read, where that can be done, and other uses wait until
 * then. *OUT, to be freed: {"image", "digest", "id", "size", "frozen"}. */
VIAL_API VIAL_MUST_CHECK int vial_session_snapshot(
    struct vial_session *session, const struct vial_snapshot_options *options,
    char **out, struct vial_error *err);

/* Whether it has ended and its vessel is gone, and how, at once: nobody is asked and
 * nothing is waited for. One that is being worked on at this moment counts as open. */
VIAL_API bool vial_session_ended(struct vial_session *session,
                                 struct vial_session_report *out);

/* How it stands; while it is open, its vessel is asked for what it has used. Does not
 * count as asking for anything. */
VIAL_API void vial_session_look(struct vial_session *session,
                                struct vial_session_report *out);

/* Ends everything in it and records OUTCOME (completed or failed). A session
 * that has ended already keeps its outcome. Returns once the vessel is gone. With a
 * `stop_grace` programs get SIGTERM, and that long to end by themselves. */
VIAL_API void vial_session_close(struct vial_session *session,
                                 enum vial_outcome outcome);

/* The same at once; cuts short a grace that another call waits for. */
VIAL_API void vial_session_kill(struct vial_session *session,
                                enum vial_outcome outcome);

/* Kills it as completed if need be, and gives it back with all its execs; its
 * contexts were given back before. NULL is allowed. */
VIAL_API void vial_session_free(struct vial_session *session);

/* "open", "completed" and so on. Static storage. */
VIAL_API const char *vial_outcome_name(enum vial_outcome outcome);

/* Runs REQ's program in the session and waits for it, as vial_run does in a vessel of
 * its own: files go in, it is compiled where its language needs that, files come back.
 * REQ may set what vial_keep_run takes. Its env comes over the session's; its directory
 * and its time-out are the session's unless it says so. WATCH as for vial_keep_run;
 * NULL: nobody follows. -1: nothing was run, and ERR says why. */
VIAL_API VIAL_MUST_CHECK int vial_session_run(struct vial_session *session,
                                              const struct vial_request *req,
                                              const struct vial_watch *watch,
                                              struct vial_result **out,
                                              struct vial_error *err);

/* Options of a program. Zero-initialise; either ARGV or SHELL says what to run. */
struct vial_exec_options {
    const char *const *argv; /* NULL-terminated */
    const char *shell;       /* a line for /bin/sh -c */
    const char *const *env;  /* NULL-terminated "NAME=VALUE", over the session's */
    const char *cwd;         /* absolute, or below the workdir; NULL: the session's */
    const void *stdin_data;  /* copied */
    size_t stdin_len;
    bool stdin_live;         /* vial_exec_write brings it */
    int64_t timeout_ms;      /* 0: the request's `timeout`, which is also the most */
    unsigned rows, columns;  /* both > 0: a terminal of that size, in place of pipes;
                                all that it shows is stream 1 */
    const char *correlation; /* as in struct vial_watch; NULL: the session's */
    /* Called once, when it has ended or was given back, from any thread: it must not
     * wait, nor use the session. Or NULL. */
    void (*ended)(void *context);
    void *context;
    bool entrypoint; /* the image's ENTRYPOINT begins argv, and its CMD is argv where
                        none is given */
    bool as_root; /* the program is root: where the session has `sudo: nopasswd`, by
                     which its programs can become that anyway, or `user: root` */
};

struct vial_exec_status {
    bool running;              /* if so, only its pid and the byte counts are set */
    enum vial_verdict verdict; /* ok, nonzero, signal, timeout, oom, output_limit,
                                  cancelled, failed; or cpu_timeout, which ends the
                                  session too */
    int exit_code;             /* -1 when there is none */
    int signal;                /* 0 when there is none */
    uint64_t stdout_bytes, stderr_bytes; /* written so far */
    double duration_ms;
    double cpu_user_ms, cpu_system_ms;
    uint64_t memory_peak_bytes; /* of its largest process */
    struct vial_error error;    /* code "" when there is none */
    uint64_t network_refused;   /* as in struct vial_result; what those that run at the
                                   same time try is told by the first that ends */
    uint32_t pid; /* its number among the vessel's processes, by which its other
                     programs know it; 0 until it has started. The guest's word */
    const struct vial_network *network; /* what was reached through the session's gate
                                           since the last program ended; NULL: it has
                                           none. The exec's, until that is freed */
};

/* Connects to PORT of the vessel's loopback, through its gate: the session was opened
 * with `network: gate`, whatever it allows. *FD is a stream socket, the caller's to
 * close. It ends at once if no program listens there. */
VIAL_API VIAL_MUST_CHECK int vial_session_connect(struct vial_session *session,
                                                  unsigned port, int *fd,
                                                  struct vial_error *err);

/* Has the session's gate let out ENTRIES, COUNT of them, from now on, and ends its
 * connections to others. Entries are those of the field `allow`, and only what the
 * session was opened with can be among them: it is narrowed, and can be widened to that
 * again. */
VIAL_API VIAL_MUST_CHECK int vial_session_allow(struct vial_session *session,
                                                const char *const *entries,
                                                size_t count, struct vial_error *err);

/* Starts a program and returns at once. *OUT is given back with vial_exec_free,
 * or together with the session. */
VIAL_API VIAL_MUST_CHECK int vial_session_exec(struct vial_session *session,
                                               const struct vial_exec_options *options,
                                               struct vial_exec **out,
                                               struct vial_error *err);

/* Waits until it has ended, for at most TIMEOUT_MS (0: only looks; < 0: for as
 * long as it takes). A program that did not start is a status with verdict
 * `failed`. Never fails on a running one: see `running`. */
VIAL_API void vial_exec_wait(struct vial_exec *exec, int64_t timeout_ms,
                             struct vial_exec_status *out);

/* Waits until it has started or ended, for at most TIMEOUT_MS (as above): from then on
 * its pid is known, if it has one. */
VIAL_API void vial_exec_wait_started(struct vial_exec *exec, int64_t timeout_ms,
                                     struct vial_exec_status *out);

/* Hands LEN bytes to a live stdin, as fast as the program takes them. With
 * TIMEOUT_MS >= 0 it stops then; *TAKEN says how many bytes went. */
VIAL_API VIAL_MUST_CHECK int vial_exec_write(struct vial_exec *exec, const void *data,
                                             size_t len, int64_t timeout_ms,
                                             size_t *taken, struct vial_error *err);

/* The end of a live stdin. */
VIAL_API VIAL_MUST_CHECK int vial_exec_close_stdin(struct vial_exec *exec,
                                                   struct vial_error *err);

/* Sends a signal to the program, or to it and all its descendants. */
VIAL_API VIAL_MUST_CHECK int vial_exec_signal(struct vial_exec *exec, int signal,
                                              bool whole_tree, struct vial_error *err);

/* Another size for its terminal; the program gets SIGWINCH. */
VIAL_API VIAL_MUST_CHECK int vial_exec_resize(struct vial_exec *exec, unsigned rows,
                                              unsigned columns, struct vial_error *err);

/* A piece of a stream. Streams are logs with absolute offsets; whoever knows an
 * offset is attached, and nothing is kept per reader. */
struct vial_chunk {
    uint64_t offset; /* of its first byte */
    uint64_t gap;    /* bytes before it that were asked for and are lost */
    size_t len;
    bool end; /* the stream ends behind it */
};

/* Reads at most SIZE bytes of STREAM (1 or 2) from OFFSET on into BUF, waiting at
 * most TIMEOUT_MS for the first one (0: not at all; < 0: as long as it takes).
 * An offset behind the end of what was written is VIAL-OFFSET. */
VIAL_API VIAL_MUST_CHECK int vial_exec_read(struct vial_exec *exec, int stream,
                                            uint64_t offset, void *buf, size_t size,
                                            int64_t timeout_ms, struct vial_chunk *out,
                                            struct vial_error *err);

/* From now on somebody follows both streams from these offsets on (NULL: from their
 * begins; UINT64_MAX: not that one): the program waits when they are behind, so that
 * they miss nothing. It waits no longer once nothing was read for 20 s, or its own time
 * is over: then bytes can be lost as usual. To be ended by vial_exec_unfollow. */
VIAL_API void vial_exec_follow(struct vial_exec *exec, const uint64_t from[2]);
VIAL_API void vial_exec_unfollow(struct vial_exec *exec);

/* Kills its tree if it still runs, and forgets its output. NULL is allowed. */
VIAL_API void vial_exec_free(struct vial_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
