/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/box_program.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define KEEP_S 30 /* an ended one can still be connected to */

void proc_free(struct proc *p)
{
    vial_exec_free(p->exec);
    json_decref(p->config);
    free(p->tag);
    free(p);
}

void proc_release(struct proc *p)
{
    bool last;

    if (!p)
        return;
    (void)pthread_mutex_lock(&p->box->lock);
    last = --p->users == 0;
    (void)pthread_mutex_unlock(&p->box->lock);
    if (last)
        proc_free(p);
}

void procs_done(struct box *box)
{
    while (box->procs) {
        struct proc *next = box->procs->next;

        proc_free(box->procs);
        box->procs = next;
    }
}

bool procs_run(const struct box *box)
{
    for (const struct proc *p = box->procs; p; p = p->next)
        if (!atomic_load(&p->ended_ns))
            return true;
    return false;
}

static bool is_stale(const struct proc *p)
{
    int64_t ended_ns = atomic_load(&p->ended_ns);

    return ended_ns && p->users == 1 &&
           clock_ms_between(ended_ns, clock_now_ns()) > KEEP_S * 1000.0;
}

bool procs_make_room(struct box *box)
{
    struct proc *stale = NULL;
    unsigned count = 0;

    (void)pthread_mutex_lock(&box->lock);
    for (struct proc **at = &box->procs; *at;) {
        struct proc *p = *at;

        if (!is_stale(p)) {
            count++;
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = stale;
        stale = p;
    }
    (void)pthread_mutex_unlock(&box->lock);
    while (stale) {
        struct proc *next = stale->next;

        proc_free(stale);
        stale = next;
    }
    return count < PROCS;
}

struct proc *proc_find(struct ask *a, const json_t *message, bool running,
                       struct connect_error *e)
{
    const json_t *selector = json_object_get(message, "process");
    json_int_t pid = json_integer_value(json_object_get(selector, "pid"));
    const char *tag = json_string_value(json_object_get(selector, "tag"));
    struct proc *found;

    (void)pthread_mutex_lock(&a->box->lock);
    for (found = a->box->procs; found; found = found->next) {
        bool it = tag ? str_eq(found->tag, tag) : found->pid == (unsigned)pid;

        if (it && !(running && atomic_load(&found->ended_ns)))
            break;
    }
    if (found)
        found->users++;
    (void)pthread_mutex_unlock(&a->box->lock);
    if (!found && tag)
        (void)connect_fail(e, CONNECT_NOT_FOUND, "process with tag %.128s not found",
                           tag);
    else if (!found)
        (void)connect_fail(e, CONNECT_NOT_FOUND, "process with pid %lld not found",
                           (long long)pid);
    return found;
}
