/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/attempt.h"

#include <poll.h>

#include "base/fail.h"
#include "model/result.h"

#define BACKOFF_MS 500

bool attempt_cancelled(const struct grader *g)
{
    struct pollfd cancelled = { .fd = g->cancel_fd, .events = POLLIN };

    return poll(&cancelled, 1, 0) > 0;
}

/* True: a failure of vial's own, after which another try may go well. */
static bool wait_to_retry(const struct grader *g, const struct vial_result *r,
                          unsigned attempts)
{
    struct pollfd cancelled = { .fd = g->cancel_fd, .events = POLLIN };

    if (r && r->verdict != VIAL_FAILED)
        return false;
    return attempts <= g->retries &&
           poll(&cancelled, 1, BACKOFF_MS << (attempts - 1)) == 0;
}

int attempt_run(const struct grader *g, const struct vial_request *req,
                struct vial_result **out, unsigned *attempts, struct vial_error *err)
{
    struct vial_watch watch = { .cancel_fd = g->cancel_fd, .stdin_fd = -1 };
    int rc;

    *attempts = 0;
    do {
        vial_result_free(ptr_take(out));
        fail_clear(err);
        rc = g->run(g->context, req, &watch, out, err);
        ++*attempts;
    } while (wait_to_retry(g, rc == 0 ? *out : NULL, *attempts));
    return rc;
}
