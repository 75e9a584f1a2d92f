/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_BOX_PROGRAM_H
#define VIAL_E2B_BOX_PROGRAM_H

/*
 * A program of a sandbox, found by pid or tag. It goes on when who started it has gone;
 * whoever connects next gets what nobody was sent yet.
 *
 *   proc_start -> { proc_find -> proc_attach, input, signals -> proc_release }*
 *
 * One that has ended is found for a while, then forgotten.
 */

#include <stdatomic.h>

#include "e2b/connect.h"

struct attached;

struct proc {
    struct proc *next;
    struct box *box; /* outlives it */
    struct vial_exec *exec;
    unsigned pid;
    unsigned users; /* the list is one of them */
    struct attached *streams;
    char *tag; /* or NULL */
    json_t *config;
    bool terminal, has_stdin;
    _Atomic int64_t ended_ns; /* 0: it runs */
    uint64_t sent[2];         /* up to there somebody was given its output */
};

/* box_program.c: by {"pid": N} or {"tag": TEXT} in MESSAGE; of several the newest. The
 * caller is a user of it. */
struct proc *proc_find(struct ask *a, const json_t *message, bool running,
                       struct connect_error *e);
void proc_release(struct proc *p); /* NULL is allowed */

static inline void auto_proc_(struct proc **p)
{
    proc_release(*p);
}
#define auto_proc __attribute__((cleanup(auto_proc_)))

/* Only before it was started well, when nobody else knows it. */
void proc_free(struct proc *p);
#define PROCS 256u /* of one sandbox, ended ones among them */
/* Those that ended a while ago are forgotten. False: there are too many. */
bool procs_make_room(struct box *box);

/* box_program_start.c: what MESSAGE says is started; the caller is a user of it. */
struct proc *proc_start(struct ask *a, const json_t *message, struct connect_error *e);
/* A terminal's size, as messages have it. */
int proc_read_size(const json_t *pty, unsigned *rows, unsigned *columns,
                   struct connect_error *e);

/* box_program_stream.c: tells its events until it ends, or who asked has gone. */
void proc_attach(struct ask *a, struct proc *p);

#endif
