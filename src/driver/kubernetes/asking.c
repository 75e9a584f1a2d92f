/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/asking.h"

#include <poll.h>

#include "base/fail.h"
#include "driver/kubernetes/login.h"

static int ask_once(const struct cluster_api *api, const struct http_request *r,
                    const struct way *way, struct http_answer *answer,
                    struct vial_error *err)
{
    if (way->fd)
        return http_upgrade(&api->transport, r, answer, way->fd, err);
    if (way->take)
        return http_stream(&api->transport, r, way->take, way->context, answer, err);
    return http_call(&api->transport, r, answer, err);
}

static int hear(void *context, const char *line)
{
    struct way *way = context;

    retry_after_hear(&way->patience, line);
    return way->header ? way->header(way->header_context, line) : 0;
}

/* 1: there are other credentials now. */
static int renew(struct cluster_api *api, struct vial_error *err)
{
    int rc = login_renew(&api->cluster, err);

    return rc > 0 && cluster_api_give(api, err) < 0 ? -1 : rc;
}

/* What was half there is not asked for again. */
static bool may_ask_again(const struct http_request *r, const struct way *way, int rc,
                          const struct http_answer *answer,
                          const struct vial_error *why)
{
    bool whole = !way->take && !way->fd;

    return (rc == 0 || whole) && cluster_may_pass(r->method, rc, answer, why);
}

static int pause_for(const struct http_request *r, int64_t ms, struct vial_error *err)
{
    struct pollfd cancel = { .fd = r->cancel_fd, .events = POLLIN };

    return poll(&cancel, 1, (int)ms) > 0
               ? fail(err, VIAL_E_CANCELLED, "the caller cancelled the run")
               : 0;
}

/* After an answer that is none yet. 1: ask again; 0: it is all that will come. */
static int wait_for_better(struct cluster_api *api, const struct http_request *r,
                           struct way *way, int rc, const struct http_answer *answer,
                           struct vial_error *err)
{
    int64_t wait_ms;

    if (rc == 0 && cluster_is_unknown(answer->status) && !way->renewed) {
        way->renewed = true;
        return renew(api, err);
    }
    if (!may_ask_again(r, way, rc, answer, err))
        return 0;
    wait_ms = retry_after_next(&way->patience);
    if (wait_ms < 0)
        return 0;
    return pause_for(r, wait_ms, err) < 0 ? -1 : 1;
}

int cluster_ask(struct cluster_api *api, struct http_request *r, struct way *way,
                struct http_answer *answer, struct vial_error *err)
{
    /* As long again as the call itself may take. */
    way->patience = (struct retry_after){ .tries = api->retries,
                                          .wait_ms = api->retry_ms,
                                          .left_ms = api->retries ? r->timeout_ms : 0 };
    /* What ends only soon is still good, should there be nothing else. */
    way->renewed = login_ends(&api->cluster) && renew(api, NULL) > 0;
    r->header = hear;
    r->header_context = way;
    for (;;) {
        struct vial_error why = { 0 };
        int rc, again;

        r->token = api->cluster.token;
        rc = ask_once(api, r, way, answer, &why);
        again = wait_for_better(api, r, way, rc, answer, &why);
        if (again <= 0) {
            if ((rc < 0 || again < 0) && err)
                *err = why;
            return again < 0 ? -1 : rc;
        }
        http_answer_done(answer);
        *answer = (struct http_answer){ 0 };
    }
}
