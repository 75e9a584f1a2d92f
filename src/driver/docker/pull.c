/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pulling an image. It is the engine that speaks to the registry: what goes wrong there
 * comes back in the engine's words, in the middle of its stream of progress or as its
 * answer. Those words tell whether trying again may help. They may be the registry's,
 * and are not trusted with more than that: the tries are bounded in number and in time.
 */
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "driver/docker/image.h"

#define CHECK_REGISTRY "check the name, and that the registry can be reached"
#define MS_NS          INT64_C(1000000)

/* One try: a JSON object a line. */
struct attempt {
    const struct vial_pull *pull;
    struct str line;
    bool may_pass; /* what went wrong may be over soon */
};

/* Of Docker and Podman. No name of an image can hold a blank or a capital letter, so
 * that none can look like one of these, but for the first, which begins the message. */
bool image_may_pass(const char *trouble)
{
    static const char *const phrases[] = {
        "429 Too Many Requests",
        "HTTP status: 429",
        "HTTP 429 response",
        "oo many requests",
        "HTTP status: 5",
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway",
        "HTTP 500 response",
        "HTTP 502 response",
        "HTTP 503 response",
        "HTTP 504 response",
        "unexpected EOF",
        ": EOF",
        "connection reset by peer",
        "connection refused",
        "broken pipe",
        "i/o timeout",
        "TLS handshake timeout",
        "Client.Timeout exceeded",
        "server closed idle connection",
        "http2: server sent GOAWAY",
        "Temporary failure in name resolution",
    };

    if (str_starts(trouble, "toomanyrequests"))
        return true;
    for (size_t i = 0; i < sizeof(phrases) / sizeof(*phrases); i++)
        if (strstr(trouble, phrases[i]))
            return true;
    return false;
}

static int say_trouble(struct attempt *a, const char *what, struct vial_error *err)
{
    bool full = strstr(what, "no space left") != NULL;
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    text_safe(&state, &safe, what, strlen(what));
    text_safe_end(&state, &safe);
    a->may_pass = !full && image_may_pass(what);
    (void)fail(err, full ? VIAL_E_ENGINE_SPACE : VIAL_E_PULL, "pull image '%s'",
               a->pull->name);
    (void)fail_cause(err, "%.180s", str_ok(&safe) && safe.data ? safe.data : "");
    if (full)
        return fail_remedy(err, "run 'vial image prune', or free space in the engine's "
                                "data directory");
    if (a->may_pass)
        return fail_remedy(err, "try again later, or use an image that is here: 'vial "
                                "image list'");
    return fail_remedy(err, CHECK_REGISTRY);
}

static int tell(const struct vial_pull *pull, const char *layer, const char *status,
                json_int_t current, json_int_t total, struct vial_error *err)
{
    if (!pull->progress ||
        pull->progress(pull->context, layer, status,
                       (unsigned long long)(current > 0 ? current : 0),
                       (unsigned long long)(total > 0 ? total : 0)) == 0)
        return 0;
    return fail(err, VIAL_E_CANCELLED, "the caller cancelled the pull");
}

static int report(struct attempt *a, json_t *event, struct vial_error *err)
{
    json_t *detail = json_object_get(event, "progressDetail");
    json_t *trouble = json_object_get(event, "error");
    const char *layer = json_string_value(json_object_get(event, "id"));
    const char *status = json_string_value(json_object_get(event, "status"));

    if (json_is_string(trouble))
        return say_trouble(a, json_string_value(trouble), err);
    if (!status)
        return 0;
    return tell(a->pull, layer ? layer : "", status,
                json_integer_value(json_object_get(detail, "current")),
                json_integer_value(json_object_get(detail, "total")), err);
}

static int take_line(struct attempt *a, struct vial_error *err)
{
    auto_json json_t *event = NULL;
    size_t len = a->line.len;

    a->line.len = 0;
    while (len > 0 && isspace((unsigned char)a->line.data[len - 1]))
        len--;
    if (len == 0)
        return 0;
    if (json_parse(a->line.data, len, "the engine's progress", &event, err) < 0)
        return fail_as(err, VIAL_E_ENGINE_API);
    return report(a, event, err);
}

static int take(void *context, const char *data, size_t len, struct vial_error *err)
{
    struct attempt *a = context;

    for (size_t i = 0; i < len; i++) {
        str_putc(&a->line, data[i]);
        if (a->line.len > HTTP_BODY_MAX)
            return fail(err, VIAL_E_ENGINE_API, "pull: a line is too long");
        if (data[i] == '\n' && take_line(a, err) < 0)
            return -1;
    }
    return str_ok(&a->line) ? 0 : fail_memory(err);
}

static int too_late(const struct vial_pull *pull, struct vial_error *err)
{
    (void)fail(err, VIAL_E_PULL_TIMEOUT,
               "pull image '%s': it takes longer than %lld ms", pull->name,
               pull->timeout_ms);
    return fail_remedy(err,
                       "give it longer ('--pull-timeout 15m', or VIAL_PULL_TIMEOUT), "
                       "or use an image that is here: 'vial image list'");
}

/* No whole answer: of our time-out, of the caller, or since the engine hung up. */
static int say_broken(const struct api *api, struct attempt *a, struct vial_error *err)
{
    if (fail_is(err, VIAL_E_ENGINE_TIMEOUT))
        return too_late(a->pull, err);
    if (fail_is(err, VIAL_E_ENGINE_DOWN))
        a->may_pass = true;
    return api_advise(api, err);
}

static int refused(struct attempt *a, const struct http_answer *answer,
                   struct vial_error *err)
{
    struct vial_error why = { 0 };

    api_cause(answer->body.data, answer->body.len, &why);
    (void)say_trouble(a, why.cause, err);
    a->may_pass = a->may_pass || answer->status == 429 || answer->status == 503;
    return -1;
}

static int try_once(const struct api *api, struct attempt *a, const char *target,
                    int64_t timeout_ms, struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    struct http_request request = { .method = "POST",
                                    .target = target,
                                    .timeout_ms = timeout_ms,
                                    .cancel_fd = a->pull->cancel_fd };
    int rc = http_stream(&api->transport, &request, take, a, &answer, err);

    if (rc == 0)
        rc = take_line(a, err);
    else
        (void)say_broken(api, a, err);
    str_done(&a->line);
    a->line = (struct str){ 0 };
    if (rc == 0 && answer.status >= 300)
        rc = refused(a, &answer, err);
    return rc;
}

/* Before another try; the caller is told why nothing happens. */
static int pause_for(const struct vial_pull *pull, int64_t ms, const char *why,
                     struct vial_error *err)
{
    struct pollfd cancel = { .fd = pull->cancel_fd, .events = POLLIN };
    char status[448];

    (void)snprintf(status, sizeof(status), "trying again in %lld ms: %s", (long long)ms,
                   why);
    if (tell(pull, "", status, 0, 0, err) < 0)
        return -1;
    if (poll(&cancel, 1, (int)ms) > 0)
        return fail(err, VIAL_E_CANCELLED, "the caller cancelled the pull");
    return 0;
}

static int try_patiently(const struct api *api, const struct vial_pull *pull,
                         const char *target, struct vial_error *err)
{
    int64_t end_ns = clock_now_ns() + pull->timeout_ms * MS_NS;
    int64_t wait_ms = pull->retry_ms;

    for (int i = 0;; i++, wait_ms *= 2) {
        struct attempt a = { .pull = pull };
        int64_t left_ms = (end_ns - clock_now_ns()) / MS_NS;
        struct vial_error why = { 0 };

        if (left_ms <= 0)
            return too_late(pull, err);
        if (try_once(api, &a, target, left_ms, &why) == 0)
            return 0;
        left_ms = (end_ns - clock_now_ns()) / MS_NS;
        if (!a.may_pass || i >= pull->retries || wait_ms >= left_ms) {
            if (err)
                *err = why;
            return i ? fail_in(err, "after %d tries", i + 1) : -1;
        }
        if (pause_for(pull, wait_ms, why.cause[0] ? why.cause : why.message, err) < 0)
            return -1;
    }
}

int image_pull(const struct api *api, const struct vial_pull *pull, json_t **out,
               struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct image_name name;

    if (image_parse(pull->name, &name, err) < 0)
        return -1;
    str_puts(&target, "/images/create?fromImage=");
    http_escape(&target, name.name);
    str_puts(&target, "&tag=");
    http_escape(&target, name.tag);
    if (!str_ok(&target))
        return fail_memory(err);
    if (try_patiently(api, pull, target.data, err) < 0)
        return -1;
    return image_verify(api, pull->name, &name, out, err);
}
