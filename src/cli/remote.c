/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/daemon.h"
#include "cli/events.h"

struct remote {
    const struct vial_watch *watch;
    json_t *result;
    struct vial_error error;
};

static void copy(char *out, size_t size, json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    (void)snprintf(out, size, "%s", text ? text : "");
}

static uint64_t amount(json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* How the daemon gets on with pulling the image. */
static int see_pull(const struct vial_watch *watch, json_t *object)
{
    const char *layer = json_string_value(json_object_get(object, "layer"));
    const char *status = json_string_value(json_object_get(object, "status"));

    if (!watch->pulling)
        return 0;
    return watch->pulling(watch->context, layer ? layer : "", status ? status : "",
                          amount(object, "current"), amount(object, "total"));
}

static void tell_notice(const struct vial_watch *watch, const char *text)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!text)
        return;
    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        watch->notice(watch->context, safe.data);
}

static int see(void *context, const char *event, json_t *object, struct vial_error *err)
{
    struct remote *r = context;
    struct blob data = { 0 };
    int stream = events_output(event, object, &data);
    int rc = 0;

    if (stream && r->watch->output)
        rc = r->watch->output(r->watch->context, stream, data.data, data.len);
    blob_done(&data);
    if (strcmp(event, "progress") == 0)
        rc = see_pull(r->watch, object);
    if (rc != 0)
        return fail(err, VIAL_E_CANCELLED, "the output could not be passed on");
    if (strcmp(event, "notice") == 0 && r->watch->notice)
        tell_notice(r->watch, json_string_value(json_object_get(object, "message")));
    if (strcmp(event, "result") == 0)
        r->result = json_incref(json_object_get(object, "result"));
    if (strcmp(event, "error") == 0) {
        json_t *said = json_object_get(object, "error");

        copy(r->error.code, sizeof(r->error.code), said, "code");
        copy(r->error.message, sizeof(r->error.message), said, "message");
        copy(r->error.remedy, sizeof(r->error.remedy), said, "remedy");
    }
    return 0;
}

/* As it comes. */
static int run_live(const struct daemon *d, const char *body, struct remote *r,
                    struct vial_error *err)
{
    auto_events struct events events = { .see = see, .context = r };
    const struct daemon_ask ask = { "POST", "/v1/run?stream=ndjson", body, NULL,
                                    r->watch->cancel_fd };

    if (daemon_stream(d, &ask, events_take, &events, err) < 0)
        return -1;
    if (r->result)
        return 0;
    *err = r->error;
    return err->code[0] ? -1 : fail(err, VIAL_E_DAEMON, "the daemon sent no result");
}

/* Exact bytes, hence raw. */
static int run_whole(const struct daemon *d, const char *body, struct remote *r,
                     struct vial_error *err)
{
    const struct daemon_ask ask = { "POST", "/v1/run?raw=1",     body,
                                    NULL,   r->watch->cancel_fd, .wants_result = true };
    auto_str struct str said = { 0 };

    if (daemon_call(d, &ask, &said, err) < 0)
        return -1;
    r->result = json_loadb(said.data ? said.data : "", said.len, 0, NULL);
    return r->result ? 0 : fail(err, VIAL_E_DAEMON, "the daemon sent no result");
}

/* Our going away has ended it. */
static struct vial_result *cancelled(void)
{
    auto_json json_t *json =
        json_pack("{s:s, s:s}", "verdict", "cancelled", "stage", "run");

    return json ? remote_result(json) : NULL;
}

int remote_run(const struct cli *cli, const struct vial_request *req,
               const struct vial_watch *watch, struct vial_result **out,
               struct vial_error *err)
{
    struct remote r = { .watch = watch };
    auto_json json_t *body = NULL;
    auto_free char *text = NULL;
    struct daemon d;
    int rc;

    if (daemon_find(cli, false, &d, err) < 0 ||
        daemon_request(req, watch->stdin_fd, &body, err) < 0)
        return -1;
    if (watch->local_images)
        (void)json_object_set_new(body, "pull", json_string("never"));
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    rc = watch->output ? run_live(&d, text, &r, err) : run_whole(&d, text, &r, err);
    if (rc == 0)
        *out = remote_result(r.result);
    else if (strcmp(err->code, fail_code_text(VIAL_E_CANCELLED)) == 0)
        *out = cancelled();
    else
        return -1;
    json_decref(r.result);
    return *out ? 0 : fail_memory(err);
}
