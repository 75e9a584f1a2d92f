/* SPDX-License-Identifier: Apache-2.0 */

/* What answers at port 49999 of a sandbox: code in contexts that remember. What it
 * prints and displays comes as lines of JSON while it runs, in its order. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "e2b/connect.h"
#include "e2b/notebook.h"
#include "model/value.h"

#define PULSE_MS     5000
#define INTERRUPT_MS 500 /* until it is tried again, … */
#define INTERRUPTS   4   /* … so often; then the interpreter is given up */

/* The lines of one execution. Two threads write: who runs the code, and one that keeps
 * the connection alive. */
struct lines {
    struct ask *ask;
    struct notebook *notebook;
    pthread_mutex_t lock;
    int64_t sent_ns;
    int over_fd; /* readable: the code has ended */
    int stop_fd; /* readable: it is not waited for any more */
};

/* Takes VALUE. ASCII, so that no character is cut in two. */
static int line(struct lines *l, json_t *value)
{
    auto_free char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    auto_str struct str whole = { 0 };
    int rc = -1;

    json_decref(value);
    str_puts(&whole, text ? text : "");
    str_putc(&whole, '\n');
    (void)pthread_mutex_lock(&l->lock);
    if (text && str_ok(&whole))
        rc = web_write(l->ask->web, whole.data, whole.len);
    l->sent_ns = clock_now_ns();
    (void)pthread_mutex_unlock(&l->lock);
    return rc;
}

/* The client has gone: the code is told to stop, more than once, as one that has not
 * begun yet does not hear it. */
static void press(struct lines *l)
{
    struct pollfd over = { .fd = l->over_fd, .events = POLLIN };
    struct vial_error ignored;

    for (int i = 0; i < INTERRUPTS; i++) {
        (void)!vial_context_interrupt(l->notebook->context, &ignored);
        if (poll(&over, 1, INTERRUPT_MS) > 0)
            return;
    }
    (void)eventfd_write(l->stop_fd, 1);
}

static void *pulse(void *context)
{
    struct lines *l = context;
    struct pollfd fds[] = { { .fd = l->over_fd, .events = POLLIN },
                            { .fd = web_gone_fd(l->ask->web), .events = POLLIN } };

    while (poll(fds, 2, PULSE_MS) >= 0 && !fds[0].revents) {
        double quiet_ms;

        if (fds[1].revents) {
            press(l);
            return NULL;
        }
        (void)pthread_mutex_lock(&l->lock);
        quiet_ms = clock_ms_between(l->sent_ns, clock_now_ns());
        (void)pthread_mutex_unlock(&l->lock);
        if (quiet_ms >= PULSE_MS)
            (void)line(l, json_pack("{s:s}", "type", "keepalive"));
    }
    return NULL;
}

static int on_output(void *context, int stream, const void *data, size_t len)
{
    char stamp[CLOCK_STAMP_SIZE];

    clock_stamp(stamp, 3);
    return line(context,
                json_pack("{s:s, s:o, s:s}", "type", stream == 1 ? "stdout" : "stderr",
                          "text", value_text_json(data, len), "timestamp", stamp));
}

static const struct {
    const char *media, *key;
} kinds[] = {
    { "text/plain", "text" },        { "text/html", "html" },
    { "text/markdown", "markdown" }, { "image/svg+xml", "svg" },
    { "image/png", "png" },          { "image/jpeg", "jpeg" },
    { "application/pdf", "pdf" },    { "text/latex", "latex" },
    { "application/json", "json" },  { "application/javascript", "javascript" },
    { "e2b/data", "data" },          { "application/vnd.vial.chart+json", "chart" },
};

/* Columns and rows as {column: [values]}. NULL: no table has so many cells, as each is
 * a value of what was read; empty rows would cost their number for each column. */
static json_t *table_data(const json_t *table)
{
    const json_t *columns = json_object_get(table, "columns");
    const json_t *rows = json_object_get(table, "rows");
    json_t *data;

    if (json_array_size(columns) &&
        json_array_size(rows) > JSON_VALUES_MAX / json_array_size(columns))
        return NULL;
    data = json_object();
    for (size_t c = 0; c < json_array_size(columns); c++) {
        const json_t *column = json_array_get(columns, c);
        const char *name = json_is_string(column)
                               ? json_string_value(column)
                               : json_string_value(json_object_get(column, "name"));
        json_t *values = json_array();

        for (size_t r = 0; r < json_array_size(rows); r++)
            (void)json_array_append(values, json_array_get(json_array_get(rows, r), c));
        (void)json_object_set_new(data, name ? name : "", values);
    }
    return data;
}

/* 'abc' is shown as abc. */
static json_t *without_quotes(const json_t *text)
{
    const char *t = json_string_value(text);
    size_t len = json_string_length(text);

    if (t && len >= 2 && (t[0] == '\'' || t[0] == '"') && t[len - 1] == t[0])
        return json_stringn(t + 1, len - 2);
    return json_incref((json_t *)(uintptr_t)text);
}

static const char *key_of(const char *media)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].media, media) == 0)
            return kinds[i].key;
    return NULL;
}

static int tell_result(struct lines *l, json_t *bundle, bool is_main)
{
    json_t *extra = json_object();
    json_t *result = json_pack("{s:s, s:b, s:o}", "type", "result", "is_main_result",
                               is_main, "extra", extra);
    const char *media;
    json_t *value;

    json_object_foreach(bundle, media, value)
    {
        const char *key = key_of(media);

        if (strcmp(media, "application/vnd.vial.table+json") == 0)
            (void)json_object_set_new(result, "data", table_data(value));
        else if (key && strcmp(key, "text") == 0)
            (void)json_object_set_new(result, key, without_quotes(value));
        else
            (void)json_object_set(key ? result : extra, key ? key : media, value);
    }
    return line(l, result);
}

static void on_display(void *context, const char *json)
{
    auto_json json_t *bundle = json_loads(json, JSON_ALLOW_NUL, NULL);

    if (bundle)
        (void)tell_result(context, bundle, false);
}

static int tell_error(struct lines *l, const char *name, const char *value,
                      const char *traceback)
{
    return line(l, json_pack("{s:s, s:s, s:s, s:s}", "type", "error", "name", name,
                             "value", value, "traceback", traceback));
}

static const char *text_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static void tell_outcome(struct lines *l, const json_t *said)
{
    json_t *value = json_object_get(said, "value");
    const json_t *error = json_object_get(said, "error");

    if (json_is_object(value))
        (void)tell_result(l, value, true);
    if (json_is_object(error))
        (void)tell_error(l, text_in(error, "name"), text_in(error, "value"),
                         text_in(error, "traceback"));
    else if (strcmp(text_in(said, "status"), "ok") != 0)
        (void)tell_error(l, "TimeoutError", "the code was interrupted", "");
}

/* What is asked for; texts are borrowed from the body. */
struct cell_wish {
    const char *code, *context, *language;
    size_t len;
    json_t *env;
};

static int read_wish(json_t *body, struct cell_wish *w, struct vial_error *err)
{
    const json_t *code = json_object_get(body, "code");

    w->context = json_string_value(json_object_get(body, "context_id"));
    w->language = json_string_value(json_object_get(body, "language"));
    w->env = json_object_get(body, "env_vars");
    if (!json_is_string(code))
        return fail(err, VIAL_E_VALUE, "'code' is missing");
    if (w->context && w->language)
        return fail(err, VIAL_E_VALUE, "give either a context or a language");
    if (json_is_null(w->env) || (json_is_object(w->env) && !json_object_size(w->env)))
        w->env = NULL;
    /* It is written as a text in a text of a program, and may be six times as long. */
    if (w->env && ask_check_words("env_vars", w->env, err) < 0)
        return -1;
    w->code = json_string_value(code);
    w->len = json_string_length(code);
    return 0;
}

static int run(struct lines *l, struct notebook *n, const struct cell_wish *w,
               json_t **said, struct vial_error *err)
{
    const struct vial_watch watch = { .cancel_fd = l->stop_fd,
                                      .stdin_fd = -1,
                                      .output = on_output,
                                      .context = l,
                                      .correlation = l->ask->turn->correlation,
                                      .displayed = on_display };
    struct vial_error later;
    auto_free char *text = NULL;
    int rc;

    if (w->env && notebook_set_env(l->ask->box, n, w->env, true, err) < 0)
        return -1;
    rc = vial_context_watch(n->context, w->code, w->len, 0, &watch, &text, err);
    if (rc < 0) {
        n->broken = true;
        return -1;
    }
    if (w->env)
        (void)!notebook_set_env(l->ask->box, n, w->env, false, &later);
    *said = json_loads(text, JSON_ALLOW_NUL, NULL);
    return *said ? 0 : fail_memory(err);
}

static void tell_run(struct lines *l, struct notebook *n, const struct cell_wish *w)
{
    auto_json json_t *said = NULL;
    struct vial_error err = { 0 };
    char words[ASK_WORDS];

    (void)line(l, json_pack("{s:s, s:i}", "type", "number_of_executions",
                            "execution_count", (int)++n->count));
    if (run(l, n, w, &said, &err) == 0) {
        tell_outcome(l, said);
    } else {
        ask_words(&err, words);
        (void)tell_error(
            l, fail_is(&err, VIAL_E_CONTEXT) ? "UnexpectedEndOfExecution" : err.code,
            words, "");
    }
}

static void execute_in(struct ask *a, struct notebook *n, const struct cell_wish *w)
{
    auto_fd int over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto_fd int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct lines l = { .ask = a,
                       .notebook = n,
                       .sent_ns = clock_now_ns(),
                       .over_fd = over_fd,
                       .stop_fd = stop_fd };
    pthread_t thread;

    (void)pthread_mutex_init(&l.lock, NULL);
    if (over_fd >= 0 && stop_fd >= 0 &&
        thread_start(&thread, THREAD_STACK, pulse, &l) == 0) {
        tell_run(&l, n, w);
        (void)eventfd_write(over_fd, 1);
        (void)pthread_join(thread, NULL);
    } else {
        (void)tell_error(&l, "SystemError", "the server has no threads left", "");
    }
    if (box_lives(a->box) &&
        line(&l, json_pack("{s:s}", "type", "end_of_execution")) == 0)
        web_end(a->web);
    else
        web_abort(a->web);
    (void)pthread_mutex_destroy(&l.lock);
}

/* Errors are plain text here. */
static void refuse(struct ask *a, const struct vial_error *err)
{
    unsigned status = ask_status_of(err);
    char words[ASK_WORDS];

    if (fail_is(err, VIAL_E_BUSY))
        status = 429;
    ask_words(err, words);
    ask_text(a, status, "text/plain", words);
}

static struct notebook *notebook_for(struct ask *a, const struct cell_wish *w,
                                     struct vial_error *err)
{
    struct notebook *n;

    if (!w->context)
        return notebook_usual(a->box, w->language ? w->language : "python", err);
    n = notebook_find(a->box, w->context);
    if (!n)
        (void)fail(err, VIAL_E_NO_FILE, "Context %.64s not found", w->context);
    return n;
}

static void execute(struct ask *a)
{
    auto_json json_t *body = NULL;
    struct cell_wish w = { 0 };
    struct vial_error err = { 0 };
    struct notebook *n = NULL;

    if (ask_body(a, &body, &err) < 0 || read_wish(body, &w, &err) < 0 ||
        !(n = notebook_for(a, &w, &err)) || ask_start(a, &err) < 0) {
        refuse(a, &err);
        if (n)
            notebook_release(a->box, n);
        return;
    }
    if (notebook_enter(a, n, &err) < 0) {
        refuse(a, &err);
    } else {
        a->turn->status = 200;
        if (web_start(a->web, 200, "application/x-ndjson") == 0)
            execute_in(a, n, &w);
        notebook_leave(a->box, n);
    }
    ask_ended(a->caller);
    notebook_release(a->box, n);
}

static json_t *notebook_json(const struct notebook *n)
{
    return json_pack("{s:s, s:s, s:s}", "id", n->id, "language", n->language, "cwd",
                     n->cwd);
}

static void contexts_list(struct ask *a)
{
    json_t *list = json_array();

    (void)pthread_mutex_lock(&a->box->lock);
    for (const struct notebook *n = a->box->notebooks; n; n = n->next)
        (void)json_array_append_new(list, notebook_json(n));
    (void)pthread_mutex_unlock(&a->box->lock);
    ask_json(a, 200, list);
}

static void contexts_make(struct ask *a)
{
    auto_json json_t *body = NULL;
    auto_str struct str cwd = { 0 };
    struct connect_error e = { 0 };
    struct vial_error err = { 0 };
    struct notebook *n;
    const char *language = NULL;
    const char *path = NULL;

    if (ask_body(a, &body, &err) == 0) {
        language = json_string_value(json_object_get(body, "language"));
        path = value_string(json_object_get(body, "cwd"));
    }
    if (!err.code[0] && box_path(BOX_HOME, path ? path : "", &cwd, &e) < 0)
        (void)fail(&err, VIAL_E_VALUE, "%.256s", e.message);
    if (err.code[0] || ask_start(a, &err) < 0) {
        refuse(a, &err);
        return;
    }
    n = notebook_make(a, language ? language : "python", cwd.data, &err);
    ask_ended(a->caller);
    if (!n) {
        refuse(a, &err);
        return;
    }
    ask_json(a, 200, notebook_json(n));
    notebook_release(a->box, n);
}

static void change(struct ask *a, int (*how)(struct ask *a, struct notebook *n,
                                             struct vial_error *err))
{
    struct notebook *n = notebook_find(a->box, a->arg);
    struct vial_error err = { 0 };

    if (!n) {
        (void)fail(&err, VIAL_E_NO_FILE, "Context %.64s not found", a->arg);
        refuse(a, &err);
        return;
    }
    if (how(a, n, &err) == 0)
        ask_text(a, 200, "application/json", "null");
    else
        refuse(a, &err);
    notebook_release(a->box, n);
}

static void contexts_restart(struct ask *a)
{
    change(a, notebook_restart);
}

static void contexts_remove(struct ask *a)
{
    change(a, notebook_remove);
}

static void health(struct ask *a)
{
    ask_text(a, 200, "application/json", "\"OK\"");
}

static const struct {
    const char *method, *path;
    ask_handler *handler;
} routes[] = {
    { "GET", "/health", health },
    { "POST", "/execute", execute },
    { "GET", "/contexts", contexts_list },
    { "POST", "/contexts", contexts_make },
    { "POST", "/contexts/{}/restart", contexts_restart },
    { "DELETE", "/contexts/{}", contexts_remove },
};

void interpreter_handle(struct ask *a)
{
    char args[2][ASK_ARG];

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(web_method(a->web), routes[i].method) == 0 &&
            ask_matches(a, routes[i].path, args)) {
            routes[i].handler(a);
            return;
        }
    ask_text(a, 404, "text/plain", "there is nothing under this path");
}
