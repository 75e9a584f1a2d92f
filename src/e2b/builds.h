/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_BUILDS_H
#define VIAL_E2B_BUILDS_H

/*
 * Templates that callers build: a sandbox of theirs in which steps are run, and whose
 * files are saved (docs/adr/0118). What is known of a build here goes with the front;
 * what it made is an image, whose name says all of it (e2b/saved.h).
 *
 *   builds_add -> { builds_link -> builds_put }* -> build_begin -> build_start, which
 *   goes on in a thread of its own -> build_end; build_status at any time
 *
 * All functions may be called from several threads.
 */

#include "e2b/http_ask.h"
#include "e2b/saved.h"

#define BUILD_STEPS     128u
#define BUILD_BODY      ((size_t)256 << 10) /* of the call that starts one */
#define BUILD_SECONDS   3600                /* for all steps together */
#define BUILD_LOG_BYTES ((size_t)256 << 10) /* that are kept of what a build says */
#define BUILD_LOG_PAGE  100u                /* entries in an answer */

enum build_state {
    BUILD_WAITS, /* for its files, and to be started */
    BUILD_RUNS,
    BUILD_READY,
    BUILD_FAILED,
};

struct build_entry {
    int64_t at_ms;
    const char *level; /* static */
    char *text;
};

/* Files that a step copies, as a tar archive. */
struct build_files {
    struct build_files *next;
    char hash[65];
    char token[BOX_TOKEN]; /* who knows it may bring them */
    int fd;                /* -1: they did not come yet */
    size_t bytes;
};

struct build {
    struct build *next;
    struct builds *builds;
    struct e2b *e2b;
    unsigned users; /* the table is one of them */
    char owner[96];
    struct caller *caller;
    struct saved saved; /* what it makes */

    /* With the table's lock held: */
    enum build_state state;
    int64_t since_ms; /* in that state */
    struct build_files *files;
    struct build_entry *log;
    size_t log_count, log_bytes;
    bool log_full;
    char *why, *step; /* of one that failed */
    struct box *box;  /* of one that runs; ended with the table */
};

struct builds {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct build *list; /* newest first */
    unsigned running;
    bool closing;
};

static inline void build_lock(struct build *b)
{
    (void)pthread_mutex_lock(&b->builds->lock);
}

static inline void build_unlock(struct build *b)
{
    (void)pthread_mutex_unlock(&b->builds->lock);
}

int builds_open(struct builds **out);
/* Ends those that run, and waits for that. NULL is allowed. */
void builds_close(struct builds *builds);

/* One for A's caller that will make SAVED, which is moved. VIAL-RATE: there are too
 * many. The caller is a user of it. */
struct build *builds_add(struct ask *a, struct saved *saved, struct vial_error *err);
/* Those that nobody has gone on with for an hour go, with their files. */
void builds_forget(struct builds *builds);
/* OWNER's by the name of its template and, unless ID is NULL, its own; without one the
 * newest that waits. */
struct build *builds_find(struct e2b *e2b, const char *owner, const char *name,
                          const char *id);
void build_release(struct build *b); /* NULL is allowed */

static inline void auto_build_(struct build **b)
{
    build_release(*b);
}
#define auto_build __attribute__((cleanup(auto_build_)))

/* The place for files of that hash; *PRESENT: they are there. TOKEN is whom to tell. */
int builds_link(struct build *b, const char *hash, bool *present, char token[BOX_TOKEN],
                struct vial_error *err);
/* Whose files TOKEN brings; NULL: nobody's. Must not wait. */
struct caller *builds_caller(struct e2b *e2b, const char *token);
/* Keeps a copy of FD, which has BYTES. The status to answer with, and *WHY. */
unsigned builds_put(struct e2b *e2b, const char *token, int fd, size_t bytes,
                    const char **why);
/* Those of HASH, borrowed; -1: they did not come. Of one that runs they stay. */
int build_file(struct build *b, const char *hash);

/* Says a line, or several. */
void build_say(struct build *b, const char *level, const char *text, size_t len);
__attribute__((format(printf, 2, 3))) void build_tell(struct build *b,
                                                      const char *format, ...);

/* It runs from now on, until build_end, or build_put_back; false: it has begun already,
 * or the server ends. */
bool build_begin(struct build *b);
/* It waits again, as if it had not begun. */
void build_put_back(struct build *b);
/* In BOX; false: the server ends. */
bool build_enter(struct build *b, struct box *box);
/* BOX is given back next. */
void build_leave(struct build *b);
/* It is over; STEP and WHY say where it failed, and are NULL where it did not. */
void build_end(struct build *b, const char *step, const char *why);

/* What its owner is told: its log from entry OFFSET on. */
json_t *build_status(struct build *b, size_t offset);

/* build_steps.c: what a caller wants to be done. */
enum build_kind { STEP_COPY, STEP_RUN, STEP_ENV, STEP_WORKDIR, STEP_USER };

struct build_step {
    enum build_kind kind;
    struct strv args;
    char hash[65]; /* of STEP_COPY */
};

struct build_plan {
    struct build_step *steps;
    size_t count;
};
int build_plan_read(const json_t *steps, struct build_plan *out,
                    struct vial_error *err);
void build_plan_done(struct build_plan *p);
/* "COPY" … */
const char *build_word(enum build_kind kind);
/* What a pattern's files lie below, of SOURCE, a path of the client's: "." for all.
 * malloc'ed; NULL: it leads out, or there is no memory. */
char *build_source(const char *source);

/* build_run.c: does PLAN in BOX, in a thread of its own, which has both from then on;
 * the caller counts as one who runs a program until it is over. B has begun. */
int build_start(struct build *b, struct box *box, struct build_plan *plan,
                struct vial_error *err);

/* build_program.c: one program of a build. */
struct build_program {
    const char *const *argv;
    const char *const *env;
    const char *cwd;
    bool root;
    int input;           /* that it reads; -1: nothing */
    int64_t patience_ms; /* for a piece of that to be read; 0: a minute */
    struct build *log;   /* that gets what it prints; NULL: */
    struct str *printed; /* this does, its begin */
};
/* Runs it to its end. -1: it did not end with 0, and WHY says how. */
int build_program(struct box *box, const struct build_program *p, struct str *why);

#endif
