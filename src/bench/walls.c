/* SPDX-License-Identifier: Apache-2.0 */

/* Makes bubblewrap's arguments, so that it shows and hides what vial does: read from
 * the mounts of a vessel, by a program in it. */

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "bench/bench.h"

#define LOOK "print(open('/proc/self/mountinfo').read())"

/* "ID PARENT DEVICE ROOT POINT OPTIONS …": ROOT is what of its file system is shown. */
static void add_wall(struct strv *out, const char *root, const char *point)
{
    if (strncmp(point, "/etc/", 5) == 0) {
        strv_push(out, "--ro-bind");
        strv_push(out, point);
        strv_push(out, point);
    } else if (strcmp(root, "/var/none") == 0) {
        strv_push(out, "--ro-bind");
        strv_push(out, "/dev/null");
        strv_push(out, point);
    } else if (strcmp(root, "/var/empty") == 0) {
        strv_push(out, "--tmpfs");
        strv_push(out, point);
    }
}

static int look(struct vial_engine *engine, struct vial_result **out,
                struct vial_error *err)
{
    struct vial_request *request = NULL;
    int rc = vial_request_new(&request, err);

    if (rc == 0)
        rc = vial_request_set(request, "language", "python", err);
    if (rc == 0)
        rc = vial_request_set(request, "code", LOOK, err);
    if (rc == 0)
        rc = vial_run(engine, request, NULL, out, err);
    vial_request_free(request);
    return rc;
}

int bench_walls(struct vial_engine *engine, struct strv *out, struct vial_error *err)
{
    struct vial_result *seen = NULL;
    const char *line = NULL;

    if (look(engine, &seen, err) != 0)
        return -1;
    if (seen->verdict != VIAL_OK) {
        vial_result_free(seen);
        return fail(err, VIAL_E_UNSUPPORTED, "the mounts of a vessel cannot be read");
    }
    for (line = seen->out.data; line && *line; line = strchr(line, '\n')) {
        char root[128], point[128];

        line += *line == '\n';
        if (sscanf(line, "%*s %*s %*s %127s %127s", root, point) == 2)
            add_wall(out, root, point);
    }
    vial_result_free(seen);
    return strv_ok(out) ? 0 : fail_memory(err);
}
