/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/prestart.h"

#include <jansson.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "engine/run/expand.h"
#include "model/value.h"

#define BOOT_NAME ".vial-waiting.cjs" /* it removes itself */
#define BOOT_MAX  (64u << 10)
#define OWN_ARGS  2 /* the program and its file; what follows is the request's */

static void on_data(void *context, uint32_t channel, int stream, const uint8_t *data,
                    size_t len)
{
    struct preparation *p = context;
    struct shown shown = value_show((const char *)data, len); /* an image's own node */

    if (stream == 1 && len == 1 && data[0] == 0)
        p->done = true;
    else if (p->rc == 0)
        p->rc = fail(p->err, VIAL_E_OPEN, "start an interpreter ahead: it says '%s'",
                     shown.text);
    link_consumed(p->talk.link, channel, stream, len);
}

static void on_exited(void *context, uint32_t channel, const struct exit_message *m)
{
    struct preparation *p = context;

    (void)channel;
    p->rc = fail(p->err, VIAL_E_OPEN, "start an interpreter ahead: it ended (%u)",
                 m->value);
}

static void on_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    struct preparation *p = context;

    (void)channel;
    p->rc = fail_sys_rc(p->err, -error, "start an interpreter ahead: step '%s'",
                        exec_step_name(step));
}

static void on_done(void *context, uint32_t channel, int error, const char *text)
{
    struct preparation *p = context;

    (void)channel;
    (void)text;
    if (error)
        p->rc = fail_sys_rc(p->err, -error, "put a file into the vessel");
}

static int put_boot(struct link *link, const char *share_dir, struct vial_error *err)
{
    char name[] = BOOT_NAME;
    const struct put_message m = { .path = name, .mode = 0644 };
    auto_free char *path = path_join(share_dir, "runtimes/waiting.cjs");
    struct blob boot = { 0 };
    uint32_t channel = 0;
    int rc = 0;

    if (!path)
        return fail_memory(err);
    if (io_read_file(path, BOOT_MAX, &boot, err) < 0)
        return -1;
    rc = link_put(link, &m, &channel, err);
    if (rc == 0) {
        link_send(link, channel, boot.data, boot.len);
        link_send_eof(link, channel);
    }
    blob_done(&boot);
    return rc;
}

static int start(const struct ready *r, const struct plan *plan, uint32_t *channel,
                 struct vial_error *err)
{
    auto_strv struct strv argv = { 0 };
    auto_strv struct strv env = { 0 };
    struct exec_message m = { .cwd = NULL };

    strv_push(&argv, plan->argv.items[0]);
    strv_push(&argv, "-r");
    expand_text(&argv, plan, r->vessel, "{dir}/" BOOT_NAME);
    expand_text(&argv, plan, r->vessel, plan->argv.items[1]);
    expand_env(plan, r->vessel, &env);
    if (!strv_ok(&argv) || !strv_ok(&env))
        return fail_memory(err);
    m.argv = argv.items;
    m.env = env.items;
    return link_exec(r->link, &m, channel, err);
}

int prestart_make(struct ready *r, const struct plan *plan, const char *share_dir,
                  struct vial_error *err)
{
    static const struct link_events events = {
        .data = on_data, .exited = on_exited, .failed = on_failed, .done = on_done
    };
    struct preparation p = { .done = false };

    if (put_boot(r->link, share_dir, err) < 0 || start(r, plan, &r->channel, err) < 0)
        return -1;
    return ready_prepare(r, &p, &events, err);
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

int prestart_go(struct link *link, uint32_t channel, const struct plan *plan,
                const struct vessel *vessel, bool input, struct vial_error *err)
{
    auto_strv struct strv env = { 0 };
    auto_free char *text = NULL;
    json_t *all = NULL;
    uint8_t size[4];
    size_t len = 0;

    expand_env(plan, vessel, &env);
    all = strv_ok(&env) ? json_pack("{s:o, s:o, s:b}", "args", arguments(plan), "env",
                                    environment(&env), "input", input)
                        : NULL;
    text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text)
        return fail_memory(err);
    len = strlen(text);
    if (len + sizeof size > link_writable(link, channel))
        return fail(err, VIAL_E_INTERNAL, "the arguments are too long to be sent");
    for (unsigned i = 0; i < sizeof size; i++)
        size[i] = (uint8_t)(len >> (8 * i));
    link_send(link, channel, size, sizeof size);
    link_send(link, channel, text, len);
    if (!input)
        link_send_eof(link, channel);
    return 0;
}
