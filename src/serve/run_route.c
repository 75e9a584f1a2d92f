/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "model/result.h"
#include "serve/job.h"
#include "serve/route.h"

static int pass_on(void *context, int stream, const void *data, size_t len)
{
    return stream_output(context, stream, -1, data, len);
}

static bool has_room(void *context)
{
    return stream_room(context);
}

static int tell_pull(void *context, const char *layer, const char *status,
                     unsigned long long current, unsigned long long total)
{
    return stream_pull(context, layer, status, current, total);
}

static void pass_notice(void *context, const char *text)
{
    (void)stream_event(context, "notice", json_pack("{s:s}", "message", text));
}

static void run_streamed(struct call *c, const struct job *from, enum stream_form form)
{
    struct job job = *from;
    auto_vial_result struct vial_result *result = NULL;
    struct vial_error err = { 0 };
    struct stream s;
    unsigned retry_s = 0;

    job.output = pass_on;
    job.pulling = tell_pull;
    job.notice = pass_notice;
    job.room = has_room;
    job.room_fd = web_room_fd(c->web);
    job.context = &s;
    if (stream_start(&s, c, form) < 0)
        return;
    stream_live(&s);
    (void)stream_event(&s, "start", json_pack("{s:s}", "request", c->id));
    if (job_run(&job, &result, &retry_s, &err) < 0) {
        call_refused(c, &err);
        (void)stream_last(&s, "error",
                          json_pack("{s:o, s:i}", "error", error_json(&err),
                                    "retry_after", (int)retry_s));
        return;
    }
    call_note(c, "run", result->id);
    (void)stream_result(&s, json_object(), result);
    stream_end(&s);
}

/* Nothing came of it, but may the next time. */
static bool is_passing(unsigned status)
{
    return status == 503 || status == 429;
}

static void run_whole(struct call *c, struct job *job, const char *key)
{
    auto_vial_result struct vial_result *result = NULL;
    struct vial_error err = { 0 };
    unsigned retry_s = 0;
    bool good = job_run(job, &result, &retry_s, &err) == 0;
    unsigned status = good ? job_status(result) : 0;

    if (key && (!good || is_passing(status))) {
        keys_drop(&c->serve->keys, c->who.name, key);
        key = NULL;
    }
    if (!good) {
        call_refuse(c, &err, retry_s);
        return;
    }
    if (is_passing(status))
        (void)web_set_header(c->web, "Retry-After", "1");
    call_note(c, "run", result->id);
    call_result(c, status, result, key);
}

/* True when there is nothing left to do. */
static bool answered_before(struct call *c, const char *key, const char *body,
                            size_t len)
{
    struct keys_answer before = { 0 };
    struct vial_error err = { 0 };
    struct sha256 hash;
    char text[65];
    enum keys_state state;

    sha256_init(&hash);
    sha256_add(&hash, body, len);
    sha256_text(&hash, text);
    state = keys_begin(&c->serve->keys, c->who.name, key, text, &before, &err);
    if (state == KEYS_REFUSED)
        call_refuse(c, &err, 1);
    if (state == KEYS_KNOWN) {
        (void)web_set_header(c->web, "Idempotency-Replayed", "true");
        call_long(c, before.status, ptr_take(&before.body.data));
    }
    blob_done(&before.body);
    return state != KEYS_NEW;
}

static void run_request(struct call *c, const struct vial_request *req,
                        enum stream_form form, const char *key)
{
    /* With a key the client may come back for the answer, so its going away ends
     * nothing. */
    auto_fd int own_fd = key ? epoll_create1(EPOLL_CLOEXEC) : -1;
    struct job job = { .call = c, .req = req, .batch = web_query(c->web, "batch") };

    job.cancel_fd = key ? own_fd : web_gone_fd(c->web);
    if (job.cancel_fd < 0) {
        struct vial_error err = { 0 };

        if (key)
            keys_drop(&c->serve->keys, c->who.name, key);
        (void)fail(&err, VIAL_E_BUSY, "no descriptor is left");
        call_error(c, &err);
        return;
    }
    if (form != STREAM_NONE)
        run_streamed(c, &job, form);
    else
        run_whole(c, &job, key);
}

void run_code(struct call *c)
{
    auto_vial_request struct vial_request *req = NULL;
    const char *key = web_header(c->web, "Idempotency-Key");
    const char *batch;
    struct vial_error err = { 0 };
    enum stream_form form;
    size_t len;
    const char *body = web_body(c->web, &len);

    if (stream_wanted(c, &form, &err) < 0 || job_batch(c, &batch, &err) < 0 ||
        job_request(c, body, len, &req, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (key && form != STREAM_NONE) {
        (void)fail(&err, VIAL_E_VALUE, "a stream cannot have an idempotency key");
        call_error(c, &err);
        return;
    }
    if (!key || !answered_before(c, key, body, len))
        run_request(c, req, form, key);
}
