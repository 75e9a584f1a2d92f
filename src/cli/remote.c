/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "base/text.h"
#include "cli/daemon.h"
#include "cli/events.h"
#include "model/result.h"

static const char *text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static double real_of(json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static uint64_t count_of(json_t *object, const char *name)
{
    return (uint64_t)real_of(object, name);
}

#define COPY(member, object, name)                                                     \
    (void)snprintf(member, sizeof(member), "%s", text_of(object, name))

void remote_error(struct vial_error *out, json_t *json)
{
    COPY(out->code, json, "code");
    COPY(out->message, json, "message");
    COPY(out->cause, json, "cause");
    COPY(out->remedy, json, "remedy");
    /* JSON has the number's text only; the one number that has an exit status. */
    out->sys = strcmp(out->cause, sys_text(ENOENT)) == 0 ? ENOENT : 0;
}

/* NAME, or exactly by NAME_base64. */
static char *bytes_of(json_t *object, const char *name, size_t *len)
{
    struct blob out = { 0 };
    char coded[64];
    json_t *text = json_object_get(object, name);
    json_t *exact;

    (void)snprintf(coded, sizeof(coded), "%s_base64", name);
    exact = json_object_get(object, coded);
    if (json_is_string(exact))
        (void)text_unbase64(json_string_value(exact), json_string_length(exact), &out);
    else if (json_is_string(text))
        (void)blob_set(&out, json_string_value(text), json_string_length(text));
    *len = out.len;
    return out.data;
}

static void read_stream(struct vial_stream *out, json_t *json, const char *name)
{
    char key[64];

    out->data = bytes_of(json, name, &out->len);
    if (!out->data)
        out->data = strdup("");
    (void)snprintf(key, sizeof(key), "%s_bytes", name);
    out->total_bytes = count_of(json, key);
    (void)snprintf(key, sizeof(key), "%s_truncated", name);
    out->truncated = json_is_true(json_object_get(json, key));
}

static void read_end(struct vial_result *r, json_t *json)
{
    json_t *code = json_object_get(json, "exit_code");
    const char *signal = text_of(json, "signal");

    for (size_t i = 0; result_verdicts[i]; i++)
        if (strcmp(result_verdicts[i], text_of(json, "verdict")) == 0)
            r->verdict = (enum vial_verdict)i;
    for (int i = 1; *signal && i < 65; i++)
        if (vial_signal_name(i) && strcmp(vial_signal_name(i), signal) == 0)
            r->signal = i;
    r->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
    r->stage = strcmp(text_of(json, "stage"), "compile") == 0 ? "compile" : "run";
}

static unsigned limit_of(const char *name)
{
    for (size_t i = 0; name && result_limits[i]; i++)
        if (strcmp(result_limits[i], name) == 0)
            return 1u << i;
    return 0;
}

static void read_connection(struct vial_connection *c, json_t *json)
{
    COPY(c->name, json, "name");
    COPY(c->verdict, json, "verdict");
    c->port = (unsigned)count_of(json, "port");
    c->incoming = json_is_true(json_object_get(json, "incoming"));
    c->bytes_in = count_of(json, "bytes_in");
    c->bytes_out = count_of(json, "bytes_out");
    c->times = count_of(json, "times");
    c->times = c->times ? c->times : 1;
    c->ms = real_of(json, "ms");
}

static void read_network(struct vial_result *r, json_t *json)
{
    json_t *list = json_object_get(json, "connections");
    size_t count = json_array_size(list);
    struct vial_network *n = json ? calloc(1, sizeof(*n)) : NULL;

    if (!n)
        return;
    r->network = n;
    n->connections = count ? calloc(count, sizeof(*n->connections)) : NULL;
    for (; n->connections && n->count < count; n->count++)
        read_connection(&n->connections[n->count], json_array_get(list, n->count));
    n->left_out = count_of(json, "left_out");
    n->made = count_of(json, "made");
    n->refused = count_of(json, "refused");
    n->bytes_in = count_of(json, "bytes_in");
    n->bytes_out = count_of(json, "bytes_out");
    n->over_quota = count_of(json, "over_quota");
    n->whole = json_is_true(json_object_get(json, "whole"));
}

static void read_usage(struct vial_result *r, json_t *json)
{
    json_t *timing = json_object_get(json, "timing");
    json_t *usage = json_object_get(json, "usage");
    json_t *hit = json_object_get(json, "limits_hit");

    r->duration_ms = real_of(json, "duration_ms");
    r->timing =
        (struct vial_timing){ real_of(timing, "queue_ms"), real_of(timing, "open_ms"),
                              real_of(timing, "run_ms"), real_of(timing, "close_ms") };
    r->usage.cpu_user_ms = real_of(usage, "cpu_user_ms");
    r->usage.cpu_system_ms = real_of(usage, "cpu_system_ms");
    r->usage.memory_peak_bytes = count_of(usage, "memory_peak_bytes");
    r->usage.pids_peak = count_of(usage, "pids_peak");
    r->usage.throttled_ms = real_of(usage, "throttled_ms");
    r->usage.read_bytes = count_of(usage, "read_bytes");
    r->usage.write_bytes = count_of(usage, "write_bytes");
    r->usage.net_rx_bytes = count_of(usage, "net_rx_bytes");
    r->usage.net_tx_bytes = count_of(usage, "net_tx_bytes");
    r->usage.disk_peak_bytes = count_of(usage, "disk_peak_bytes");
    r->network_refused = count_of(json, "network_refused");
    read_network(r, json_object_get(json, "network"));
    for (size_t n = 0; n < json_array_size(hit); n++)
        r->limits_hit |= limit_of(json_string_value(json_array_get(hit, n)));
}

static void read_place(struct vial_result *r, json_t *json)
{
    json_t *isolation = json_object_get(json, "isolation");
    json_t *layers = json_object_get(isolation, "layers");
    size_t count = json_array_size(layers);
    json_t *image = json_object_get(json, "image");

    COPY(r->driver, json, "driver");
    COPY(r->vessel_id, json, "vessel_id");
    COPY(r->container_id, json, "container_id");
    COPY(r->name, json, "name");
    COPY(r->start, json, "start");
    COPY(r->level, isolation, "level");
    COPY(r->limits_by, isolation, "limits_by");
    r->image = json_is_string(image) ? strdup(json_string_value(image)) : NULL;
    r->layers = calloc(count + 1, sizeof(*r->layers));
    for (size_t i = 0; r->layers && i < count; i++) {
        const char *layer = json_string_value(json_array_get(layers, i));

        r->layers[i] = strdup(layer ? layer : "");
    }
}

static void read_files(struct vial_result *r, json_t *list)
{
    size_t count = json_array_size(list);

    r->files = count ? calloc(count, sizeof(*r->files)) : NULL;
    for (size_t i = 0; r->files && i < count; i++) {
        json_t *file = json_array_get(list, i);

        r->files[i].path = strdup(text_of(file, "path"));
        r->files[i].data = bytes_of(file, "content", &r->files[i].len);
        remote_error(&r->files[i].error, json_object_get(file, "error"));
        r->file_count = i + 1;
    }
}

/* A result from its JSON; NULL: no memory. */
static struct vial_result *remote_result(json_t *json)
{
    struct vial_result *r = result_new();

    if (!r)
        return NULL;
    COPY(r->id, json, "id");
    COPY(r->correlation, json, "correlation");
    COPY(r->preset_code, json, "preset_code");
    COPY(r->wanted_driver, json, "wanted_driver");
    read_end(r, json);
    read_usage(r, json);
    read_place(r, json);
    read_stream(&r->out, json, "stdout");
    read_stream(&r->err, json, "stderr");
    read_files(r, json_object_get(json, "files"));
    remote_error(&r->error, json_object_get(json, "error"));
    return r;
}

struct remote {
    const struct vial_watch *watch;
    const struct remote_at *at;
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
static int run_live(const char *body, struct remote *r, struct vial_error *err)
{
    auto_events struct events events = { .see = see, .context = r };
    const struct daemon_ask ask = { "POST", "/v1/run?stream=ndjson", body, NULL,
                                    r->watch->cancel_fd };

    if (daemon_stream(r->at->daemon, &ask, events_take, &events, err) < 0)
        return -1;
    if (r->result)
        return 0;
    *err = r->error;
    return err->code[0] ? -1 : fail(err, VIAL_E_DAEMON, "the daemon sent no result");
}

/* Exact bytes, hence raw. */
static int run_whole(const char *body, struct remote *r, struct vial_error *err)
{
    char target[128];
    const struct daemon_ask ask = { "POST", target,     body, NULL, r->watch->cancel_fd,
                                    true,   r->at->said };
    auto_str struct str said = { 0 };

    (void)snprintf(target, sizeof(target), "/v1/run?raw=1%s%s",
                   r->at->batch ? "&batch=" : "", r->at->batch ? r->at->batch : "");
    if (daemon_call(r->at->daemon, &ask, &said, err) < 0)
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

struct vial_result *remote_denied(const struct vial_error *err)
{
    auto_json json_t *json = json_pack("{s:s, s:s, s:o}", "verdict", "denied", "stage",
                                       "run", "error", error_json(err));

    return json ? remote_result(json) : NULL;
}

int remote_run(const struct cli *cli, const struct vial_request *req,
               const struct vial_watch *watch, struct vial_result **out,
               struct vial_error *err)
{
    struct daemon d;

    if (daemon_find(cli, false, &d, err) < 0)
        return -1;
    return remote_run_at(&(struct remote_at){ .daemon = &d }, req, watch, out, err);
}

int remote_run_at(const struct remote_at *at, const struct vial_request *req,
                  const struct vial_watch *watch, struct vial_result **out,
                  struct vial_error *err)
{
    struct remote r = { .watch = watch, .at = at };
    auto_json json_t *body = NULL;
    auto_free char *text = NULL;
    int rc;

    if (daemon_request(req, watch->stdin_fd, &body, err) < 0)
        return -1;
    if (watch->local_images)
        (void)json_object_set_new(body, "pull", json_string("never"));
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    rc = watch->output ? run_live(text, &r, err) : run_whole(text, &r, err);
    if (rc == 0)
        *out = remote_result(r.result);
    else if (fail_is(err, VIAL_E_CANCELLED))
        *out = cancelled();
    else
        return -1;
    json_decref(r.result);
    return *out ? 0 : fail_memory(err);
}

static int see_one(void *context, const char *event, json_t *object,
                   struct vial_error *err)
{
    const struct grade_many *many = context;
    json_t *index = json_object_get(object, "index");
    struct vial_result *result;

    if (strcmp(event, "error") == 0)
        return fail(err, VIAL_E_DAEMON, "the daemon refused one of many runs");
    if (strcmp(event, "result") != 0)
        return 0;
    result = remote_result(json_object_get(object, "result"));
    if (!result)
        return fail_memory(err);
    return many->see(many->context, (size_t)json_integer_value(index), result)
               ? 0
               : fail(err, VIAL_E_CANCELLED, "no more is wanted");
}

int remote_run_many(const struct remote_at *at, const struct grade_many *many,
                    struct vial_error *err)
{
    struct grade_many to = *many;
    auto_events struct events events = { .see = see_one, .context = &to };
    auto_json json_t *base = NULL;
    auto_json json_t *body = NULL;
    auto_free char *text = NULL;
    char target[128];

    if (daemon_request(many->base, -1, &base, err) < 0)
        return -1;
    body = json_pack("{s:O, s:O, s:i, s:o*}", "request", base, "inputs", many->inputs,
                     "parallel", 1, "keep", many->keeps ? json_true() : NULL);
    text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (!text)
        return fail_memory(err);
    (void)snprintf(target, sizeof(target), "/v1/batch%s%s", at->batch ? "?batch=" : "",
                   at->batch ? at->batch : "");
    return daemon_stream(at->daemon,
                         &(struct daemon_ask){ "POST", target, text, NULL,
                                               many->watch->cancel_fd, false,
                                               at->said },
                         events_take, &events, err);
}
