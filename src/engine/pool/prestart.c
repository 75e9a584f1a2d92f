/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/prestart.h"

#include <jansson.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "driver/zygote_settings.h"
#include "engine/run/expand.h"
#include "model/value.h"
#include "wire/pack.h"

#define BOOT_MAX (4u << 20)
#define OWN_ARGS 2 /* the program and its file; what follows is the request's */

/* What each loads first: a file of ours, which removes itself. */
#define NODE_BOOT   ".vial-waiting.cjs"
#define PYTHON_BOOT ".vial-waiting.so"

/* One that is being started. */
struct start {
    struct preparation p; /* first: events have it as their context */
    const struct prestart_order *order;
    struct ready *ready;
    struct blob boot;
    size_t sent;           /* of BOOT */
    char *said;            /* PRESTART_SAID of them */
    uint32_t put, program; /* channels; PROGRAM 0: not yet */
};

static bool is_node(const struct plan *plan)
{
    return str_eq(plan->argv.items[0], "node");
}

static bool are_digits(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] == 0 || !strchr("0123456789abcdef ", data[i]))
            return false;
    return true;
}

/* A zero, then digits: they are all that one vessel can say to another. */
static bool is_up(const uint8_t *data, size_t len)
{
    return len > 0 && len < PRESTART_SAID && data[0] == 0 &&
           are_digits(data + 1, len - 1);
}

static void on_data(void *context, uint32_t channel, int stream, const uint8_t *data,
                    size_t len)
{
    struct start *s = context;
    struct preparation *p = &s->p;
    struct shown shown = value_show((const char *)data, len); /* an image's own node */

    if (stream == 1 && !p->done && is_up(data, len)) {
        memcpy(s->said, data + 1, len - 1);
        s->said[len - 1] = 0;
        p->done = true;
    } else if (p->rc == 0) {
        p->rc = fail(p->err, VIAL_E_OPEN, "start an interpreter ahead: it says '%s'",
                     shown.text);
    }
    link_consumed(p->talk.link, channel, stream, len);
}

static void on_exited(void *context, uint32_t channel, const struct exit_message *m)
{
    struct preparation *p = context;

    (void)channel;
    if (p->rc == 0)
        p->rc = fail(p->err, VIAL_E_OPEN, "start an interpreter ahead: it ended (%u)",
                     m->value);
}

static void on_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    struct preparation *p = context;

    (void)channel;
    if (p->rc == 0)
        p->rc = fail_sys_rc(p->err, -error, "start an interpreter ahead: step '%s'",
                            exec_step_name(step));
}

/* Bytes with their number before them. */
static int tell(struct link *link, uint32_t channel, const void *data, size_t len,
                struct vial_error *err)
{
    uint8_t size[4];

    if (len + sizeof size > link_writable(link, channel))
        return fail(err, VIAL_E_INTERNAL, "the arguments are too long to be sent");
    for (unsigned i = 0; i < sizeof size; i++)
        size[i] = (uint8_t)(len >> (8 * i));
    link_send(link, channel, size, sizeof size);
    link_send(link, channel, data, len);
    return 0;
}

static int tell_settings(const struct start *s, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    if (zygote_settings_in_vessel(s->order->share_dir, s->order->imports,
                                  s->order->held, &text, err) < 0)
        return -1;
    return tell(s->p.talk.link, s->program, text.data, text.len, err);
}

static int start_program(struct start *s, struct vial_error *err)
{
    const struct plan *plan = s->order->plan;
    const struct vessel *vessel = s->ready->vessel;
    auto_strv struct strv argv = { 0 };
    auto_strv struct strv env = { 0 };
    struct exec_message m = { .cwd = NULL };

    strv_push(&argv, plan->argv.items[0]);
    expand_env(plan, vessel, &env);
    if (is_node(plan)) {
        strv_push(&argv, "-r");
        expand_text(&argv, plan, vessel, "{dir}/" NODE_BOOT);
    } else {
        expand_text(&env, plan, vessel, "LD_PRELOAD={dir}/" PYTHON_BOOT);
    }
    expand_text(&argv, plan, vessel, plan->argv.items[1]);
    if (!strv_ok(&argv) || !strv_ok(&env))
        return fail_memory(err);
    m.argv = argv.items;
    m.env = env.items;
    if (link_exec(s->p.talk.link, &m, &s->program, err) < 0)
        return -1;
    return is_node(plan) ? 0 : tell_settings(s, err);
}

static void on_done(void *context, uint32_t channel, int error, const char *text)
{
    struct start *s = context;

    (void)channel;
    (void)text;
    if (s->program || s->p.rc < 0) /* what a guest says twice */
        return;
    if (error)
        s->p.rc = fail_sys_rc(s->p.err, -error, "put a file into the vessel");
    else
        s->p.rc = start_program(s, s->p.err);
}

static void on_writable(void *context, uint32_t channel)
{
    struct start *s = context;

    if (channel == s->put && s->sent < s->boot.len)
        (void)link_send_whole(s->p.talk.link, s->put, s->boot.data, s->boot.len,
                              &s->sent);
}

static int put_boot(struct start *s, struct vial_error *err)
{
    bool node = is_node(s->order->plan);
    char name[] = NODE_BOOT;
    char library[] = PYTHON_BOOT;
    const struct put_message m = { .path = node ? name : library, .mode = 0644 };
    auto_free char *path = path_join(s->order->share_dir,
                                     node ? "runtimes/waiting.cjs" : "vial-zygote.so");

    if (!path)
        return fail_memory(err);
    if (io_read_file(path, BOOT_MAX, &s->boot, err) < 0 ||
        link_put(s->ready->link, &m, &s->put, err) < 0)
        return -1;
    (void)link_send_whole(s->ready->link, s->put, s->boot.data, s->boot.len, &s->sent);
    return 0;
}

int prestart_make(struct ready *r, const struct prestart_order *order,
                  char said[PRESTART_SAID], struct vial_error *err)
{
    static const struct link_events events = { .data = on_data,
                                               .exited = on_exited,
                                               .failed = on_failed,
                                               .done = on_done,
                                               .writable = on_writable };
    struct start s = { .order = order, .ready = r, .said = said };
    int rc = put_boot(&s, err);

    said[0] = 0;
    if (rc == 0)
        rc = ready_prepare(r, &s.p, &events, err);
    r->channel = s.program;
    blob_done(&s.boot);
    return rc;
}

static json_t *environment(const struct strv *env)
{
    json_t *all = json_object();

    for (size_t i = 0; all && i < env->count; i++) {
        const char *value = strchr(env->items[i], '=');
        auto_free char *name =
            value ? strndup(env->items[i], (size_t)(value - env->items[i])) : NULL;

        if (name)
            (void)json_object_set_new(all, name, json_string(value + 1));
    }
    return all;
}

static json_t *arguments(const struct plan *plan)
{
    json_t *all = json_array();

    for (size_t i = OWN_ARGS; all && i < plan->argv.count; i++)
        (void)json_array_append_new(all, json_string(plan->argv.items[i]));
    return all;
}

static int go_node(struct link *link, uint32_t channel, const struct plan *plan,
                   const struct vessel *vessel, bool input, struct vial_error *err)
{
    auto_strv struct strv env = { 0 };
    auto_free char *text = NULL;
    json_t *all = NULL;

    expand_env(plan, vessel, &env);
    all = strv_ok(&env) ? json_pack("{s:o, s:o, s:b}", "args", arguments(plan), "env",
                                    environment(&env), "input", input)
                        : NULL;
    text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text)
        return fail_memory(err);
    return tell(link, channel, text, strlen(text), err);
}

/* As a guest would tell one that was forked into its vessel. */
static int go_python(struct link *link, uint32_t channel, const struct plan *plan,
                     const struct vessel *vessel, bool input, struct vial_error *err)
{
    auto_program_step struct program_step step = { 0 };
    struct exec_message m = { .stdin_closed = !input };
    struct pack p = { 0 };
    int rc = 0;

    if (expand_step(plan, vessel, false, &step, err) < 0)
        return -1;
    m.argv = step.argv.items;
    m.env = step.env.items;
    exec_write(&p, &m);
    rc = p.bad ? fail_memory(err) : tell(link, channel, p.data, p.len, err);
    pack_done(&p);
    return rc;
}

int prestart_go(struct link *link, uint32_t channel, const struct plan *plan,
                const struct vessel *vessel, bool input, struct vial_error *err)
{
    int rc = is_node(plan) ? go_node(link, channel, plan, vessel, input, err)
                           : go_python(link, channel, plan, vessel, input, err);

    if (rc == 0 && !input)
        link_send_eof(link, channel);
    return rc;
}
