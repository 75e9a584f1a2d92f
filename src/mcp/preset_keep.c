/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keep-alive: the calls of one caller share a vessel (vial/keep.h), which is made anew
 * by the preset's rules. Callers never share one. All end with the table of tools.
 */

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "mcp/preset.h"
#include "mcp/tools.h"

/* Callers beyond these have no vessel to share, and each call gets its own. */
#define KEPT_MAX 64

struct preset_kept {
    char *owner;
    struct vial_keep *keep;
};

static int add(struct preset_world *w, struct mcp_call *call, struct vial_keep **out,
               struct vial_error *err)
{
    const struct keep_rules *rules = &w->settings->keep;
    const struct vial_keep_options options = { .max_calls = (unsigned)rules->executions,
                                               .idle_ms = rules->idle_ms };
    auto_ask struct vial_request *base = NULL;
    struct preset_kept *grown = NULL;
    struct preset_kept one = { 0 };

    if (vial_request_new(&base, err) < 0 ||
        vial_keep_open(call->engine, base, &options, &one.keep, err) < 0)
        return -1;
    one.owner = strdup(call->owner);
    grown = one.owner ? reallocarray(w->kept, w->kept_count + 1, sizeof *grown) : NULL;
    if (!grown) {
        free(one.owner);
        vial_keep_close(one.keep);
        return fail_memory(err);
    }
    w->kept = grown;
    w->kept[w->kept_count++] = one;
    *out = one.keep;
    return 0;
}

/* The caller's; *OUT is NULL when there are too many. */
static int find(struct preset_world *w, struct mcp_call *call, struct vial_keep **out,
                struct vial_error *err)
{
    int rc = 0;

    *out = NULL;
    (void)pthread_mutex_lock(&w->lock);
    for (size_t i = 0; !*out && i < w->kept_count; i++)
        if (strcmp(w->kept[i].owner, call->owner) == 0)
            *out = w->kept[i].keep;
    if (!*out && w->kept_count < KEPT_MAX)
        rc = add(w, call, out, err);
    (void)pthread_mutex_unlock(&w->lock);
    return rc;
}

int preset_run_kept(struct preset_job *job, const struct vial_request *req,
                    const struct vial_watch *watch, struct vial_result **out,
                    struct vial_error *err)
{
    struct vial_keep *keep = NULL;

    if (find(job->tool->world, job->call, &keep, err) < 0)
        return -1;
    if (!keep)
        return vial_run(job->call->engine, req, watch, out, err);
    return vial_keep_run(keep, req, watch, out, err);
}

void preset_end_kept(struct preset_world *w)
{
    for (size_t i = 0; i < w->kept_count; i++) {
        vial_keep_close(w->kept[i].keep);
        free(w->kept[i].owner);
    }
    free(w->kept);
    w->kept = NULL;
    w->kept_count = 0;
}
