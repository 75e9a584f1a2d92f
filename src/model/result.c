/* SPDX-License-Identifier: Apache-2.0 */
#include "model/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/json.h"
#include "base/str.h"
#include "base/text.h"
#include "model/value.h"

/* How a result's JSON is written. */
struct form {
    bool raw;                   /* base64 of all streams and files */
    bool brief;                 /* neither output nor content of files */
    struct json_larges *larges; /* large bytes are left to these; NULL: copied */
};

const char *const result_verdicts[] = { [VIAL_OK] = "ok",
                                        [VIAL_NONZERO] = "nonzero",
                                        [VIAL_SIGNAL] = "signal",
                                        [VIAL_TIMEOUT] = "timeout",
                                        [VIAL_CPU_TIMEOUT] = "cpu_timeout",
                                        [VIAL_OOM] = "oom",
                                        [VIAL_DISK] = "disk",
                                        [VIAL_PIDS] = "pids",
                                        [VIAL_OUTPUT_LIMIT] = "output_limit",
                                        [VIAL_DENIED] = "denied",
                                        [VIAL_CANCELLED] = "cancelled",
                                        [VIAL_FAILED] = "failed",
                                        NULL };

/* In the order of enum vial_limit's bits. */
const char *const result_limits[] = { "memory", "pids", "cpu",     "disk", "fsize",
                                      "output", "time", "network", NULL };

const char *vial_verdict_name(enum vial_verdict verdict)
{
    if ((unsigned)verdict > VIAL_FAILED)
        return "failed";
    return result_verdicts[verdict];
}

/* musl has no sigabbrev_np. */
#define NAMED(signal) [SIG##signal] = #signal
static const char *const signals[] = {
    NAMED(HUP),    NAMED(INT),  NAMED(QUIT),   NAMED(ILL),  NAMED(TRAP), NAMED(ABRT),
    NAMED(BUS),    NAMED(FPE),  NAMED(KILL),   NAMED(USR1), NAMED(SEGV), NAMED(USR2),
    NAMED(PIPE),   NAMED(ALRM), NAMED(TERM),   NAMED(CHLD), NAMED(CONT), NAMED(STOP),
    NAMED(TSTP),   NAMED(TTIN), NAMED(TTOU),   NAMED(URG),  NAMED(XCPU), NAMED(XFSZ),
    NAMED(PROF),   NAMED(POLL), NAMED(VTALRM), NAMED(SYS),  NAMED(PWR),  NAMED(WINCH),
    NAMED(STKFLT),
};

const char *vial_signal_name(int signal)
{
    return signal > 0 && (size_t)signal < sizeof(signals) / sizeof(signals[0])
               ? signals[signal]
               : NULL;
}

/* The memory that vial_result_free gives back, beside the public members. */
struct owned {
    struct vial_result public; /* first: the two have one address */
    struct vial_budget *budget;
    char *who;
    uint64_t charged;
};

struct vial_result *result_new(void)
{
    struct owned *owned = calloc(1, sizeof(*owned));
    struct vial_result *result = owned ? &owned->public : NULL;

    if (!result)
        return NULL;
    result->exit_code = -1;
    result->stage = "run";
    result->verdict = VIAL_FAILED;
    memcpy(result->level, "none", sizeof("none"));
    memcpy(result->limits_by, "none", sizeof("none"));
    return result;
}

void result_charged_to(struct vial_result *result, struct vial_budget *budget,
                       const char *who)
{
    struct owned *owned = (struct owned *)result;

    owned->budget = budget_ref(budget);
    owned->who = who ? strdup(who) : NULL;
}

bool result_charge(struct vial_result *result, uint64_t bytes)
{
    struct owned *owned = (struct owned *)result;

    if (!budget_take(owned->budget, BUDGET_MEMORY, owned->who, bytes))
        return false;
    owned->charged += bytes;
    return true;
}

void result_settle(struct vial_result *result)
{
    struct owned *owned = (struct owned *)result;
    uint64_t holds = result_held(result);

    if (holds >= owned->charged)
        return;
    budget_give(owned->budget, BUDGET_MEMORY, owned->who, owned->charged - holds);
    owned->charged = holds;
}

/* Milliseconds, to the microsecond. */
static json_t *number(double value)
{
    bool sane = value >= 0 && value < 1e12;

    return json_real(sane ? (double)(int64_t)(value * 1000 + 0.5) / 1000 : 0);
}

static json_t *count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *text(const char *s)
{
    return value_text_json(s, strlen(s));
}

static json_t *text_or_null(const char *s)
{
    return s && *s ? text(s) : json_null();
}

json_t *error_json(const struct vial_error *err)
{
    if (err->code[0] == '\0')
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "code", text(err->code), "message",
                     text(err->message), "cause", text(err->cause), "remedy",
                     text(err->remedy));
}

static json_t *base64(const struct form *f, const char *data, size_t len)
{
    auto_str struct str coded = { 0 };

    if (f->larges)
        return json_large(f->larges, data, len, true);
    text_base64(&coded, data, len);
    return str_ok(&coded) ? json_stringn(coded.data ? coded.data : "", coded.len)
                          : NULL;
}

static json_t *large_text(const struct form *f, const char *data, size_t len)
{
    return f->larges ? json_large(f->larges, data, len, false)
                     : value_text_json(data, len);
}

static const char *bytes(const struct vial_stream *stream)
{
    return stream->data ? stream->data : "";
}

static bool wants_base64(const struct vial_stream *stream, bool raw)
{
    return raw || !text_is_utf8(bytes(stream), stream->len);
}

static json_t *signal_json(int signal)
{
    const char *name = vial_signal_name(signal);

    if (signal == 0)
        return json_null();
    return name ? json_string(name) : json_sprintf("%d", signal);
}

static json_t *limits_json(unsigned limits)
{
    json_t *array = json_array();

    for (size_t i = 0; result_limits[i]; i++)
        if ((limits >> i) & 1u)
            (void)json_array_append_new(array, json_string(result_limits[i]));
    return array;
}

static json_t *timing_json(const struct vial_timing *t)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "queue_ms", number(t->queue_ms), "open_ms",
                     number(t->open_ms), "run_ms", number(t->run_ms), "close_ms",
                     number(t->close_ms));
}

static json_t *usage_json(const struct vial_usage *u)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_user_ms",
        number(u->cpu_user_ms), "cpu_system_ms", number(u->cpu_system_ms),
        "memory_peak_bytes", count(u->memory_peak_bytes), "pids_peak",
        count(u->pids_peak), "throttled_ms", number(u->throttled_ms), "read_bytes",
        count(u->read_bytes), "write_bytes", count(u->write_bytes), "net_rx_bytes",
        count(u->net_rx_bytes), "net_tx_bytes", count(u->net_tx_bytes),
        "disk_peak_bytes", count(u->disk_peak_bytes));
}

static json_t *isolation_json(const struct vial_result *r)
{
    json_t *layers = json_array();

    for (size_t i = 0; r->layers && r->layers[i]; i++)
        (void)json_array_append_new(layers, text(r->layers[i]));
    return json_pack("{s:o, s:o, s:o}", "level", text(r->level), "layers", layers,
                     "limits_by", text(r->limits_by));
}

static json_t *file_json(const struct vial_file *file, const struct form *f)
{
    json_t *object = json_object();
    bool plain = file->data && text_is_utf8(file->data, file->len);

    (void)json_object_set_new(object, "path", text(file->path));
    (void)json_object_set_new(object, "bytes",
                              file->data ? count(file->len) : json_null());
    (void)json_object_set_new(
        object, "content", plain ? large_text(f, file->data, file->len) : json_null());
    if (file->data && (f->raw || !plain))
        (void)json_object_set_new(object, "content_base64",
                                  base64(f, file->data, file->len));
    (void)json_object_set_new(object, "error", error_json(&file->error));
    return object;
}

static json_t *files_json(const struct vial_result *r, const struct form *f)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->file_count; i++)
        (void)json_array_append_new(array, file_json(&r->files[i], f));
    return array;
}

static json_t *artifact_as(const struct vial_artifact *a, const struct form *f)
{
    json_t *object =
        json_pack("{s:o, s:s, s:o, s:o}", "path", text(a->path), "type", a->media,
                  "bytes", count(a->size), "sha256", text_or_null(a->sha256));

    if (a->data && !f->brief)
        (void)json_object_set_new(object, "content_base64",
                                  base64(f, a->data, (size_t)a->size));
    return object;
}

json_t *artifact_json(const struct vial_artifact *a)
{
    return artifact_as(a, &(struct form){ 0 });
}

static json_t *artifacts_json(const struct vial_result *r, const struct form *f)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->artifact_count; i++)
        (void)json_array_append_new(array, artifact_as(&r->artifacts[i], f));
    return array;
}

static json_t *denied_json(const struct vial_result *r)
{
    json_t *object = json_object();

    for (size_t i = 0; i < r->denied_count; i++)
        (void)json_object_set_new(object, r->denied[i].call, count(r->denied[i].count));
    return object;
}

static json_t *connection_json(const struct vial_connection *c)
{
    json_t *object =
        json_pack("{s:o, s:i, s:s, s:o, s:o, s:o}", "name", text(c->name), "port",
                  (int)c->port, "verdict", c->verdict, "bytes_in", count(c->bytes_in),
                  "bytes_out", count(c->bytes_out), "ms", number(c->ms));

    if (c->times > 1)
        (void)json_object_set_new(object, "times", count(c->times));
    if (c->incoming)
        (void)json_object_set_new(object, "incoming", json_true());
    return object;
}

json_t *network_json(const struct vial_network *n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n->count; i++)
        (void)json_array_append_new(array, connection_json(&n->connections[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "connections", array,
                     "left_out", count(n->left_out), "made", count(n->made), "refused",
                     count(n->refused), "bytes_in", count(n->bytes_in), "bytes_out",
                     count(n->bytes_out), "whole", n->whole, "over_quota",
                     count(n->over_quota));
}

void network_free(struct vial_network *n)
{
    if (n)
        free(n->connections);
    free(n);
}

/* Sticky: a NULL value, for want of memory, spoils the whole. */
static void put(json_t **object, const char *name, json_t *value)
{
    if (json_object_set_new(*object, name, value) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

static void put_streams(json_t **object, const struct vial_result *r,
                        const struct form *f)
{
    if (!f->brief) {
        put(object, "stdout", large_text(f, bytes(&r->out), r->out.len));
        put(object, "stderr", large_text(f, bytes(&r->err), r->err.len));
    }
    put(object, "stdout_bytes", count(r->out.total_bytes));
    put(object, "stderr_bytes", count(r->err.total_bytes));
    put(object, "stdout_truncated", json_boolean(r->out.truncated));
    put(object, "stderr_truncated", json_boolean(r->err.truncated));
    if (!f->brief && wants_base64(&r->out, f->raw))
        put(object, "stdout_base64", base64(f, bytes(&r->out), r->out.len));
    if (!f->brief && wants_base64(&r->err, f->raw))
        put(object, "stderr_base64", base64(f, bytes(&r->err), r->err.len));
}

/* Whose files they are is known where the image is unpacked here. */
static void put_image(json_t **object, const struct vial_result *r)
{
    put(object, "image", text_or_null(r->image));
    if (r->image_digest[0])
        put(object, "image_digest", text(r->image_digest));
    if (r->image_digest[0] && r->image_owners[0])
        put(object, "image_owners", text(r->image_owners));
}

static json_t *result_as(const struct vial_result *r, const struct form *f)
{
    json_t *object = json_object();

    put(&object, "id", text(r->id));
    if (r->correlation[0])
        put(&object, "correlation", text(r->correlation));
    put(&object, "verdict", json_string(vial_verdict_name(r->verdict)));
    put(&object, "stage", text(r->stage ? r->stage : "run"));
    put(&object, "exit_code",
        r->exit_code < 0 ? json_null() : json_integer(r->exit_code));
    put(&object, "signal", signal_json(r->signal));
    put_streams(&object, r, f);
    put(&object, "duration_ms", number(r->duration_ms));
    put(&object, "timing", timing_json(&r->timing));
    put(&object, "usage", usage_json(&r->usage));
    put(&object, "limits_hit", limits_json(r->limits_hit));
    if (r->network_refused)
        put(&object, "network_refused", count(r->network_refused));
    if (r->network)
        put(&object, "network", network_json(r->network));
    if (r->denials_counted)
        put(&object, "denied_calls", denied_json(r));
    put(&object, "driver", text_or_null(r->driver));
    put(&object, "vessel_id", text_or_null(r->vessel_id));
    put(&object, "container_id", text_or_null(r->container_id));
    put(&object, "name", text_or_null(r->name));
    put_image(&object, r);
    put(&object, "start", text_or_null(r->start));
    put(&object, "isolation", isolation_json(r));
    if (!f->brief)
        put(&object, "files", files_json(r, f));
    put(&object, "artifacts", artifacts_json(r, f));
    put(&object, "artifacts_truncated", json_boolean(r->artifacts_truncated));
    put(&object, "error", error_json(&r->error));
    if (r->preset_code[0])
        put(&object, "preset_code", text(r->preset_code));
    if (r->wanted_driver[0])
        put(&object, "wanted_driver", text(r->wanted_driver));
    return object;
}

json_t *result_brief(const struct vial_result *r)
{
    return result_as(r, &(struct form){ .brief = true });
}

json_t *result_tree(const struct vial_result *r, bool raw, struct json_larges *larges)
{
    return result_as(r, &(struct form){ .raw = raw, .larges = larges });
}

int result_write(const struct vial_result *r, bool raw, const struct json_sink *to)
{
    auto_larges struct json_larges larges = { 0 };
    json_t *tree = result_tree(r, raw, &larges);
    int rc = tree ? json_write(tree, &larges, JSON_STYLE_SPACED, to) : -1;

    json_decref(tree);
    return rc;
}

uint64_t result_held(const struct vial_result *r)
{
    uint64_t bytes_held = r->out.len + r->err.len;

    for (size_t i = 0; i < r->file_count; i++)
        bytes_held += r->files[i].data ? r->files[i].len : 0;
    for (size_t i = 0; i < r->artifact_count; i++)
        bytes_held += r->artifacts[i].data ? r->artifacts[i].size : 0;
    return bytes_held;
}

void result_stand_in(struct str *out, const char *driver, const char *wanted)
{
    str_printf(out,
               "no container engine answers here, so driver '%s' runs this instead of "
               "'%s'; 'vial doctor' says what is missing",
               driver, wanted);
}

static int put_str(void *context, const void *data, size_t len)
{
    struct str *s = context;

    str_add(s, data, len);
    return str_ok(s) ? 0 : -1;
}

char *vial_result_json(const struct vial_result *result, bool raw)
{
    auto_str struct str text = { 0 };
    const struct json_sink to = { put_str, &text };

    return result_write(result, raw, &to) == 0 ? str_take(&text) : NULL;
}

static void release(struct owned *owned)
{
    budget_give(owned->budget, BUDGET_MEMORY, owned->who, owned->charged);
    budget_unref(owned->budget);
    free(owned->who);
    free(owned);
}

void vial_result_free(struct vial_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->file_count; i++) {
        free(result->files[i].path);
        free(result->files[i].data);
    }
    for (size_t i = 0; i < result->artifact_count; i++) {
        free(result->artifacts[i].path);
        free(result->artifacts[i].data);
    }
    free(result->artifacts);
    free(result->denied);
    network_free(result->network);
    for (size_t i = 0; result->layers && result->layers[i]; i++)
        free(result->layers[i]);
    free(result->layers);
    free(result->files);
    free(result->out.data);
    free(result->err.data);
    free(result->image);
    release((struct owned *)result);
}
