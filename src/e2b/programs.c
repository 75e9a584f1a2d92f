/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The service process.Process: its calls. box_program.h has the programs.
 */

#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/text.h"
#include "e2b/box_program.h"

/* The calls that answer with a stream. */
static void call_stream(struct ask *a, bool starts)
{
    auto_json json_t *message = NULL;
    auto_proc struct proc *p = NULL;
    struct connect_error e = { 0 };
    struct connect_stream s;
    size_t at = 0;
    int rc = connect_frame(a, &at, &message, &e);

    if (rc == 0)
        rc = connect_fail(&e, CONNECT_INVALID, "there is no message");
    if (rc > 0)
        p = starts ? proc_start(a, message, &e) : proc_find(a, message, false, &e);
    if (p)
        proc_attach(a, p);
    else if (connect_start(&s, a) == 0)
        connect_end(&s, &e);
}

static int list(struct ask *a, const json_t *message, json_t **out,
                struct connect_error *e)
{
    json_t *all = json_array();

    (void)message;
    (void)e;
    (void)pthread_mutex_lock(&a->box->lock);
    for (const struct proc *p = a->box->procs; p; p = p->next)
        if (!atomic_load(&p->ended_ns))
            (void)json_array_append_new(all, json_pack("{s:O, s:i, s:s*}", "config",
                                                       p->config, "pid", (int)p->pid,
                                                       "tag", p->tag));
    (void)pthread_mutex_unlock(&a->box->lock);
    *out = json_pack("{s:o}", "processes", all);
    return 0;
}

/* As fast as the program takes it, while somebody waits for that. */
static int write_all(struct ask *a, struct proc *p, const struct blob *data,
                     struct connect_error *e)
{
    struct vial_error err = { 0 };
    size_t at = 0;

    while (at < data->len) {
        size_t taken = 0;

        if (vial_exec_write(p->exec, data->data + at, data->len - at, 500, &taken,
                            &err) < 0)
            return connect_from(e, &err);
        at += taken;
        if (taken == 0 && ask_is_gone(a))
            return connect_fail(e, CONNECT_DEADLINE,
                                "the program does not take its input");
    }
    return 0;
}

static int give_input(struct ask *a, struct proc *p, const json_t *input,
                      struct connect_error *e)
{
    const json_t *text = json_object_get(input, p->terminal ? "pty" : "stdin");
    struct blob data = { 0 };
    int rc;

    if (!json_is_string(text) || (!p->terminal && !p->has_stdin))
        return connect_fail(e, CONNECT_INTERNAL,
                            p->terminal    ? "it has a terminal: send 'pty'"
                            : p->has_stdin ? "it has no terminal: send 'stdin'"
                                           : "it was started without stdin");
    if (text_unbase64(json_string_value(text), json_string_length(text), &data) < 0)
        return connect_fail(e, CONNECT_INVALID, "the input is not base64");
    rc = write_all(a, p, &data, e);
    blob_done(&data);
    return rc;
}

static int send_input(struct ask *a, const json_t *message, json_t **out,
                      struct connect_error *e)
{
    auto_proc struct proc *p = proc_find(a, message, true, e);

    *out = NULL;
    return p ? give_input(a, p, json_object_get(message, "input"), e) : -1;
}

static int close_stdin(struct ask *a, const json_t *message, json_t **out,
                       struct connect_error *e)
{
    auto_proc struct proc *p = proc_find(a, message, true, e);
    struct vial_error err;

    *out = NULL;
    if (!p)
        return -1;
    if (p->terminal || !p->has_stdin)
        return connect_fail(e, CONNECT_INTERNAL, "it was started without stdin");
    (void)!vial_exec_close_stdin(p->exec, &err); /* once more is as good */
    return 0;
}

static int send_signal(struct ask *a, const json_t *message, json_t **out,
                       struct connect_error *e)
{
    const json_t *given = json_object_get(message, "signal");
    const char *name = json_is_string(given) ? json_string_value(given) : "";
    json_int_t number = json_integer_value(given);
    auto_proc struct proc *p = proc_find(a, message, true, e);
    struct vial_error err = { 0 };
    struct vial_exec_status st;

    *out = NULL;
    if (strcmp(name, "SIGNAL_SIGKILL") == 0)
        number = SIGKILL;
    else if (strcmp(name, "SIGNAL_SIGTERM") == 0)
        number = SIGTERM;
    if (!p)
        return -1;
    if (number != SIGKILL && number != SIGTERM)
        return connect_fail(e, CONNECT_UNIMPLEMENTED,
                            "only SIGTERM and SIGKILL can be sent");
    if (vial_exec_signal(p->exec, (int)number, true, &err) < 0)
        return connect_from(e, &err);
    if (number == SIGKILL)
        vial_exec_wait(p->exec, 5000, &st); /* whoever looks then finds it gone */
    return 0;
}

static int update(struct ask *a, const json_t *message, json_t **out,
                  struct connect_error *e)
{
    auto_proc struct proc *p = proc_find(a, message, true, e);
    const json_t *pty = json_object_get(message, "pty");
    struct vial_error err = { 0 };
    unsigned rows = 0;
    unsigned columns = 0;

    *out = NULL;
    if (!p)
        return -1;
    if (!p->terminal)
        return connect_fail(e, CONNECT_INTERNAL, "it has no terminal");
    if (!json_is_object(pty))
        return 0;
    if (proc_read_size(pty, &rows, &columns, e) < 0)
        return -1;
    return vial_exec_resize(p->exec, rows, columns, &err) < 0 ? connect_from(e, &err)
                                                              : 0;
}

/* The client's frames: which program, then what goes to it. */
static int take_frames(struct ask *a, struct connect_error *e)
{
    auto_proc struct proc *p = NULL;
    size_t at = 0;

    for (;;) {
        auto_json json_t *message = NULL;
        int rc = connect_frame(a, &at, &message, e);
        const json_t *begins = json_object_get(message, "start");
        const json_t *data = json_object_get(message, "data");

        if (rc <= 0)
            return rc;
        if (begins && !p && !(p = proc_find(a, begins, true, e)))
            return -1;
        if (data && !p)
            return connect_fail(e, CONNECT_INVALID, "'start' comes first");
        if (data && give_input(a, p, json_object_get(data, "input"), e) < 0)
            return -1;
    }
}

static void stream_input(struct ask *a)
{
    struct connect_error e = { 0 };
    struct connect_stream s;
    int rc = take_frames(a, &e);

    if (connect_start(&s, a) < 0)
        return;
    if (rc == 0)
        (void)connect_send(&s, json_object());
    connect_end(&s, rc < 0 ? &e : NULL);
}

static const struct {
    const char *name;
    int (*call)(struct ask *a, const json_t *message, json_t **out,
                struct connect_error *e);
} calls[] = {
    { "List", list },
    { "SendInput", send_input },
    { "CloseStdin", close_stdin },
    { "SendSignal", send_signal },
    { "Update", update },
};

static void unary_call(struct ask *a, const char *method)
{
    auto_json json_t *message = NULL;
    json_t *out = NULL;
    struct connect_error e = { 0 };
    int rc = connect_message(a, &message, &e);

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (rc == 0 && strcmp(calls[i].name, method) == 0) {
            rc = calls[i].call(a, message, &out, &e);
            if (rc == 0)
                connect_answer(a, out ? out : json_object());
            else
                connect_refuse(a, &e);
            return;
        }
    if (rc == 0)
        (void)connect_fail(&e, CONNECT_UNIMPLEMENTED, "there is no method '%.64s'",
                           method);
    connect_refuse(a, &e);
}

void process_call(struct ask *a, const char *method)
{
    struct connect_error e;
    struct connect_stream s;
    bool refused;

    if (!connect_is_stream(a, &refused)) {
        if (!refused)
            unary_call(a, method);
        return;
    }
    if (strcmp(method, "Start") == 0 || strcmp(method, "Connect") == 0) {
        call_stream(a, strcmp(method, "Start") == 0);
    } else if (strcmp(method, "StreamInput") == 0) {
        stream_input(a);
    } else if (connect_start(&s, a) == 0) {
        (void)connect_fail(&e, CONNECT_UNIMPLEMENTED, "there is no method '%.64s'",
                           method);
        connect_end(&s, &e);
    }
}
