/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/e2b/ask_service.h"

#include <poll.h>

#include "base/fail.h"
#include "base/json.h"
#include "driver/docker/engine_api.h"

#define CALL_MS 30000
#define IDLE_MS 120000 /* a stream says something in a fourth of that */
#define END_MS  5000
#define TRIES   3u
#define WAIT_MS 500 /* before the second try; then twice as long */

/* What a connection died of, in words that fit a service of somebody else's. */
static int unreachable(const struct e2b_call *call, const struct e2b_way *way,
                       const struct vial_error *why, struct vial_error *err)
{
    static const struct {
        enum fail_code code;
        const char *text;
    } table[] = {
        { VIAL_E_ENGINE_MISSING, "has no address" },
        { VIAL_E_ENGINE_DOWN, "does not answer, or hung up" },
        { VIAL_E_ENGINE_TIMEOUT, "does not answer in time" },
        { VIAL_E_ENGINE_TLS, "cannot be trusted, or does not speak TLS" },
        { VIAL_E_ENGINE_API, "answers no HTTP, or hung up" },
    };
    const char *text = "cannot be reached";

    if (fail_is(why, VIAL_E_CANCELLED) || fail_is(why, VIAL_E_MEMORY) ||
        fail_is(why, VIAL_E_REMOTE)) {
        if (err)
            *err = *why;
        return -1;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (fail_is(why, table[i].code))
            text = table[i].text;
    (void)fail(err, VIAL_E_REMOTE, "%s: '%s' port %s %s", call->about,
               way->to->peer.host, way->to->peer.port, text);
    (void)fail_cause(err, "%s", why->message);
    return fail_remedy(err, "see whether E2B_API_URL and E2B_SANDBOX_URL, or "
                            "E2B_DOMAIN, lead to the service");
}

#define OF(scope) (1u << E2B_##scope)
#define ANY       (OF(OF_SERVICE) | OF(OF_SANDBOX) | OF(IN_SANDBOX))

static const struct refusal {
    int status;
    unsigned of; /* which calls: bits */
    const char *what, *remedy;
} refusals[] = {
    { 400, ANY, "the service refuses what was asked", NULL },
    { 401, ANY, "the service does not know the key",
      "check E2B_API_KEY; a daemon's is made by 'vial serve --new-token NAME --e2b'" },
    { 402, ANY, "the service wants to be paid", "look at the account" },
    { 403, ANY, "the key may not do this", "use a key that may hold sandboxes" },
    { 404, OF(OF_SANDBOX), "the service has no such sandbox",
      "it has ended, or its lease has" },
    { 404, OF(IN_SANDBOX), "it is not there any more, or the sandbox is not",
      "see whether the template is one of E2B's kind" },
    { 429, ANY, "the service has as many as it gives at once, or was asked too often",
      "try again later, or end what is left: 'vial ps', 'vial cleanup'" },
    { 495, ANY, "the service refuses our certificate", NULL }, /* vial-tls says so */
    { 501, ANY, "the service cannot do this", NULL },
    { 502, OF(IN_SANDBOX), "the sandbox is gone", "it has ended, or its lease has" },
    { 503, ANY, "the service is busy", "try again later" },
    { 507, ANY, "the sandbox has no space left", "use a template with more" },
};

static const struct refusal *refusal_of(const struct e2b_call *call, int status)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        if (refusals[i].status == status && (refusals[i].of & 1u << call->scope))
            return &refusals[i];
    return NULL;
}

static int refused(const struct e2b_call *call, const struct http_answer *answer,
                   struct vial_error *err)
{
    const struct refusal *r = refusal_of(call, answer->status);
    bool creates = str_eq(call->target.data, "/sandboxes");

    if (answer->status == 404 && creates) {
        (void)fail(err, VIAL_E_REMOTE, "%s: the service has no such template",
                   call->about);
        (void)fail_remedy(err, "name one that it has by E2B_TEMPLATE");
    } else if (r) {
        (void)fail(err, VIAL_E_REMOTE, "%s: %s", call->about, r->what);
        if (r->remedy)
            (void)fail_remedy(err, "%s", r->remedy);
    } else {
        (void)fail(err, VIAL_E_REMOTE, "%s: the service answers with status %d",
                   call->about, answer->status);
        (void)fail_remedy(err, "%s",
                          answer->status >= 500
                              ? "try again later"
                              : "see whether E2B_API_URL leads to an E2B "
                                "service");
    }
    api_cause(answer->body.data, answer->body.len, err);
    return -1;
}

static struct http_request request_of(const struct e2b_call *call,
                                      const struct e2b_way *way, struct str *target,
                                      struct blob *body)
{
    str_printf(target, "%s%s", way->to->path, call->target.data);
    *body = (struct blob){ call->body.data, call->body.len };
    return (struct http_request){ .method = call->method,
                                  .target = target->data,
                                  .host = way->to->host,
                                  .headers = call->headers.data,
                                  .archive = call->type ? body : NULL,
                                  .type = call->type,
                                  .timeout_ms =
                                      way->timeout_ms ? way->timeout_ms : CALL_MS,
                                  .cancel_fd = way->cancel_fd };
}

static bool has_failed(const struct e2b_call *c)
{
    return c->failed || !str_ok(&c->target) || !str_ok(&c->headers) ||
           (c->type && !str_ok(&c->body));
}

/* The service says itself that the trouble will pass. With 429 nothing was begun; with
 * 503 nobody knows. */
static bool may_pass(const struct e2b_call *call, int status)
{
    return (status == 429 && call->again != E2B_AGAIN_NEVER) ||
           (status == 503 && call->again == E2B_AGAIN);
}

static int call_patiently(const struct e2b_call *call, const struct e2b_way *way,
                          const struct http_request *r, struct http_answer *answer,
                          struct vial_error *why)
{
    const unsigned most = way->tries ? way->tries : TRIES;
    int wait_ms = WAIT_MS;

    for (unsigned tries = 1;; tries++) {
        struct pollfd cancel = { .fd = way->cancel_fd, .events = POLLIN };

        if (http_call(&way->to->transport, r, answer, why) < 0)
            return -1;
        if (tries == most || !may_pass(call, answer->status) ||
            poll(&cancel, 1, wait_ms) > 0)
            return 0;
        http_answer_done(answer);
        *answer = (struct http_answer){ 0 };
        wait_ms *= 2;
    }
}

/* 0 with any answer. */
static int ask(const struct e2b_call *call, const struct e2b_way *way,
               struct http_answer *answer, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct vial_error why = { 0 };
    struct blob body;
    struct http_request r = request_of(call, way, &target, &body);

    if (has_failed(call) || !str_ok(&target))
        return fail_memory(err);
    return call_patiently(call, way, &r, answer, &why) < 0
               ? unreachable(call, way, &why, err)
               : 0;
}

static bool is_good(const struct http_answer *answer)
{
    return answer->status >= 200 && answer->status < 300;
}

int e2b_do(const struct e2b_call *call, const struct e2b_way *way, json_t **out,
           struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };

    if (ask(call, way, &answer, err) < 0)
        return -1;
    if (!is_good(&answer))
        return refused(call, &answer, err);
    if (!out)
        return 0;
    *out = json_null();
    if (answer.body.len > 0 && json_parse(answer.body.data, answer.body.len,
                                          "the service's answer", out, err) < 0)
        return fail_as(err, VIAL_E_REMOTE);
    return 0;
}

int e2b_stream(const struct e2b_call *call, const struct e2b_way *way, http_take *take,
               void *context, struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    struct vial_error why = { 0 };
    struct blob body;
    struct http_request r = request_of(call, way, &target, &body);

    r.idle_ms = IDLE_MS;
    if (has_failed(call) || !str_ok(&target))
        return fail_memory(err);
    if (http_stream(&way->to->transport, &r, take, context, &answer, &why) < 0)
        return unreachable(call, way, &why, err);
    return answer.status == 200 ? 0 : refused(call, &answer, err);
}

int e2b_end(const struct e2b_endpoint *e, const char *id, int cancel_fd,
            struct vial_error *err)
{
    const struct e2b_way way = { &e->api, END_MS, cancel_fd, 1 };
    auto_answer struct http_answer answer = { 0 };
    auto_e2b_call struct e2b_call call;

    e2b_call_kill(&call, e, id);
    if (ask(&call, &way, &answer, err) < 0)
        return -1;
    if (answer.status == 404)
        return 1;
    return is_good(&answer) ? 0 : refused(&call, &answer, err);
}
