/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program lives and starts. The workdir is ours to write to before the
 * run. A command with a workspace works in it; code beside a workspace keeps a
 * workdir of its own, so that its file never lands in the user's tree.
 */
#include <string.h>

#include "base/fail.h"
#include "base/path.h"
#include "model/value.h"
#include "plan/draft.h"

static int refuse_cwd(const char *cwd, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_PATH, "cwd '%s' %s", cwd, why);
    return fail_remedy(err, "give a path below the working directory, or an absolute "
                            "one without '..' outside /proc, /sys and /dev");
}

static int check_absolute(const char *cwd, struct vial_error *err)
{
    static const char *const off_limits[] = { "/proc", "/sys", "/dev" };

    if (!path_is_clean_absolute(cwd))
        return refuse_cwd(cwd, "is not a clean path", err);
    for (size_t i = 0; i < sizeof(off_limits) / sizeof(off_limits[0]); i++)
        if (path_is_beneath(cwd, off_limits[i]))
            return refuse_cwd(cwd, "is not allowed", err);
    return 0;
}

/* Relative paths start where the program would without one. */
static int set_cwd(struct plan *plan, const char *cwd, const char *start,
                   struct vial_error *err)
{
    if (!cwd || str_eq(cwd, ".")) {
        plan->cwd = strdup(start);
    } else if (cwd[0] == '/') {
        if (check_absolute(cwd, err) < 0)
            return -1;
        plan->cwd = strdup(cwd);
    } else {
        if (!path_is_plain_relative(cwd, strlen(cwd)))
            return refuse_cwd(cwd, "is not a clean path", err);
        plan->cwd = path_join(start, cwd);
    }
    return plan->cwd ? 0 : fail_memory(err);
}

const char *plan_workspace_at(const struct draft *d)
{
    const char *asked = d->req->workspace_at;

    return asked ? asked : fields[FIELD_ID_workspace_at].def;
}

/* It brings nothing that would lie in the working directory, wants nothing back from
 * there, and does not say where to start. */
static bool is_bare(const struct vial_request *req)
{
    return !req->cwd && req->files.count == 0 && req->outputs.count == 0 &&
           !req->artifacts;
}

int plan_cwd_build(struct draft *d, struct vial_error *err)
{
    bool shown = request_has(d->req, workspace);
    const char *own = d->req->workdir == 1 ? "/workspace" : "/work";
    const char *start = own;
    const char *workdir = NULL;

    if (shown)
        start = plan_workspace_at(d);
    workdir = d->language && shown ? "/work" : start;

    d->plan->cwd_open =
        !d->language && !shown && str_eq(own, "/work") && is_bare(d->req);
    d->plan->workdir = strdup(workdir);
    if (!d->plan->workdir)
        return fail_memory(err);
    return set_cwd(d->plan, d->req->cwd, start, err);
}
