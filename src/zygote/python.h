/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_PYTHON_H
#define VIAL_ZYGOTE_PYTHON_H

/*
 * The interpreter as a zygote needs it. Its functions are found in the running
 * process, so that one library serves every version.
 *
 *   python_open -> python_before_fork -> python_forked (zygote)
 *                                     -> python_in_child -> python_run (child)
 */

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "wire/message.h"
#include "zygote/modules.h"
#include "zygote/python_api.h"

/* Called at the very last of a process that ran a program, if it is set. */
typedef void python_end_fn(const void *context);

/* Zero-initialise; must stay where it is. */
struct python {
    struct api api;
    struct modules modules;
    struct {
        bool armed, interrupted;
        int code;
        python_end_fn *call;
        const void *context;
    } ending;
    void *globals;      /* of the harness, runtimes/zygote.py */
    unsigned shortcuts; /* that are used; those of the end if they hold */
    bool rehearsing;    /* this is a rehearsal's child */
    bool rehearsed;     /* elsewhere, by the same python */
    long version;       /* sys.hexversion */
    int held;           /* what PyGILState_Ensure gave */
    const struct exec_message *message; /* of a child, until its program begins */
    pid_t early_exit; /* who may say its end before it is gone, or 0 */
    bool draws;       /* a child must be made unlike its siblings */
    bool ahead;       /* modules were imported */
    bool retires;     /* __main__ loses its names after an exit, too: from 3.14 on */
    long magic;       /* what compiled files begin with */
    unsigned long long libraries; /* that were ever loaded before a child */
    char missing[1024];           /* modules that could not be imported */
};

static inline void python_drop(const struct python *py, void *object)
{
    if (object)
        py->api.Py_DecRef(object);
}

/* Of the harness. Borrowed, as is the next. */
static inline void *python_function(const struct python *py, const char *name)
{
    return py->api.PyDict_GetItemString(py->globals, name);
}

static inline void *python_main(const struct python *py)
{
    return py->api.PyDict_GetItemString(py->api.PyImport_GetModuleDict(), "__main__");
}

/* SETTINGS: the harness's text, a line of modules' names, and a number (shortcuts.h),
 * parted by NULs. After the number can stand the version of a python with which just
 * those shortcuts were seen to hold. */
int python_open(struct python *py, const char *settings);
void python_before_fork(struct python *py);
void python_forked(struct python *py);   /* in the zygote */
void python_in_child(struct python *py); /* in the child: made unlike its siblings */

/* Arguments, environment and stdin become those of M. */
void python_begin(struct python *py, const struct exec_message *m);
/* Whether the program's files stand for modules that are here already. */
bool python_is_shadowed(struct python *py);
/* With what it was given and nothing else, as a vessel does that did not wait. What
 * python ignores, it would find ignored. */
_Noreturn void python_start_over(const struct exec_message *m);
/* A child that cannot do what it was told, nor say so: no exit code of ours could be
 * told from its program's. */
_Noreturn void python_die(void);
/* Runs the program and ends the process. Returns only when this cannot be done
 * here: then the caller goes on as python itself would. */
void python_run(struct python *py, const char *path, FILE *file);
void python_close(struct python *py);
/* In the zygote, when it has all it will have: makes the end of its children quick.
 * What python is to let go of when all other modules are gone, or NULL. */
void *python_arm(struct python *py);

#endif
