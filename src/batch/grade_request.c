/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/grade_request.h"

#include <stdio.h>
#include <string.h>

#include "api/inside.h"
#include "base/fail.h"
#include "model/request.h"

#define CPU_SLACK       10 /* times as long may a program take by the clock … */
#define CPU_SLACK_MS    5000
#define TIMEOUT_MOST_MS INT64_C(86400000)

/* What makes two runs of a program alike: its addresses, and what an environment can
 * do. What the row or a flag says, stays. */
static int make_alike(struct vial_request *req, struct vial_error *err)
{
    static const char
        *const fixed[] = { "PYTHONHASHSEED=0",    "PERL_HASH_SEED=0",
                           "PERL_PERTURB_KEYS=0", "TZ=UTC",
                           "LANG=C.UTF-8",        "LC_ALL=C.UTF-8",
                           "VIAL_REQUEST_ID=none" /* a daemon sets it else */ };

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        size_t name = strcspn(fixed[i], "=") + 1;
        bool given = false;

        for (size_t n = 0; n < req->env.count; n++)
            given = given || strncmp(req->env.items[n], fixed[i], name) == 0;
        if (!given && vial_request_set(req, "env", fixed[i], err) < 0)
            return -1;
    }
    return request_has(req, addresses)
               ? 0
               : vial_request_set(req, "addresses", "fixed", err);
}

/* The time limit counts what the program itself uses, however busy the host is. The
 * clock still ends one that only waits. */
static int limit_by_cpu(struct vial_request *req, struct vial_error *err)
{
    int64_t limit_ms = request_amount(req, FIELD_ID_timeout);
    char text[32];

    if (!request_has(req, timeout) || request_has(req, cpu_time))
        return 0;
    (void)snprintf(text, sizeof(text), "%lldms", (long long)limit_ms);
    if (vial_request_set(req, "cpu_time", text, err) < 0)
        return -1;
    limit_ms = limit_ms * CPU_SLACK + CPU_SLACK_MS;
    (void)snprintf(
        text, sizeof(text), "%lldms",
        (long long)(limit_ms < TIMEOUT_MOST_MS ? limit_ms : TIMEOUT_MOST_MS));
    return vial_request_set(req, "timeout", text, err);
}

int grade_request_make(const struct grader *g, json_t *asked, struct vial_request **out,
                       struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 ||
        request_decode(req, asked, 0, "request", err) < 0 ||
        (g->usual && request_fill(req, g->usual, err) < 0) ||
        (g->by_cpu && limit_by_cpu(req, err) < 0) ||
        (g->deterministic && make_alike(req, err) < 0))
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int grade_request_over(const struct vial_request *base, json_t *more,
                       const struct blob *input, struct vial_request **out,
                       struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 || request_fill(req, base, err) < 0)
        return -1;
    if (input)
        request_unset(req, FIELD_ID_stdin);
    if (request_decode(req, more, 0, "request", err) < 0 ||
        (input && vial_request_set_bytes(req, "stdin", input->data ? input->data : "",
                                         input->len, err) < 0) ||
        request_join_args(req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int grade_request_compile(const struct grader *g, const struct vial_request *req,
                          struct vial_request **out, double *cpu_ms,
                          struct vial_error *err)
{
    const struct vial_watch watch = { .cancel_fd = g->cancel_fd, .stdin_fd = -1 };
    const struct vial_session_options options = { .watch = &watch };

    if (!g->engine || !inside_compiles(g->engine, req))
        return 0;
    return inside_compile(g->engine, req, &options, out, cpu_ms, err);
}
