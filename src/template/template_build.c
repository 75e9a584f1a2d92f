/* SPDX-License-Identifier: Apache-2.0 */
#include "template/template_build.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sha256.h"
#include "images/image_config.h"
#include "images/image_name.h"
#include "template/build_state.h"
#include "template/words.h"

#include "vial/files.h"

#define KEY_FORM "vial template 1"

static bool has_files(enum template_kind kind)
{
    return kind == TEMPLATE_RUN || kind == TEMPLATE_COPY || kind == TEMPLATE_WORKDIR;
}

static void add_part(struct sha256 *h, const char *text)
{
    sha256_add(h, text, strlen(text) + 1); /* with the NUL, which ends it */
}

/* All that decides what a step makes. */
static int step_key(const struct build *b, const struct template_step *step,
                    const struct copy *copy, char out[65], struct vial_error *err)
{
    auto_strv struct strv variables = { 0 };
    char files[65] = "";
    struct sha256 h;

    if (step->kind == TEMPLATE_COPY &&
        picks_digest(&b->context, &copy->picks, files, err) < 0)
        return -1;
    build_variables(b, &variables);
    sha256_init(&h);
    add_part(&h, KEY_FORM);
    add_part(&h, b->digest);
    add_part(&h, template_word(step->kind));
    add_part(&h, step->kind == TEMPLATE_WORKDIR ? b->cwd : step->text);
    add_part(&h, b->cwd ? b->cwd : "/");
    add_part(&h, b->user);
    add_part(&h, copy->to ? copy->to : "");
    add_part(&h, files);
    for (size_t i = 0; step->kind == TEMPLATE_RUN && i < variables.count; i++)
        add_part(&h, variables.items[i]);
    sha256_text(&h, out);
    return variables.failed ? fail_memory(err) : 0;
}

static int do_run(const struct build *b, const struct template_step *step,
                  struct vial_session *s, struct vial_error *err)
{
    const char *const line[] = { "/bin/sh", "-c", step->text, NULL };

    return step_run(b, s,
                    step->words.count ? (const char *const *)step->words.items : line,
                    b->user, NULL, err);
}

static int do_files(const struct build *b, const struct template_step *step,
                    const struct copy *copy, const char *name, struct vial_error *err)
{
    const struct vial_snapshot_options options = { .name = name };
    auto_session struct vial_session *s = NULL;
    auto_free char *report = NULL;
    int rc;

    if (step_open(b, &s, err) < 0)
        return -1;
    if (step->kind == TEMPLATE_RUN)
        rc = do_run(b, step, s, err);
    else if (step->kind == TEMPLATE_COPY)
        rc = copy_do(b, copy, s, err);
    else
        rc = vial_session_mkdir(s, b->cwd, err);
    return rc < 0 ? -1 : vial_session_snapshot(s, &options, &report, err);
}

/* Makes IMAGE the one that the next step stands on. -1: there is none. */
static int stand_on(struct build *b, const char *image, struct vial_error *err)
{
    auto_json json_t *found = NULL;
    const char *digest = NULL;

    if (inside_stored_image(b->order->engine, image, &found, err) < 0)
        return -1;
    digest = json_string_value(json_object_get(found, "digest"));
    if (!digest)
        return fail(err, VIAL_E_INTERNAL, "image '%s' has no digest", image);
    (void)snprintf(b->image, sizeof(b->image), "%s", image);
    (void)snprintf(b->digest, sizeof(b->digest), "%s", digest);
    return 0;
}

static bool is_cancelled(const struct build *b)
{
    struct pollfd fd = { .fd = b->order->watch.cancel_fd, .events = POLLIN };

    return fd.fd >= 0 && poll(&fd, 1, 0) > 0;
}

/* *CACHED: it was done before. */
static int step_files(struct build *b, const struct template_step *step, bool *cached,
                      struct vial_error *err)
{
    const struct build_watch *w = &b->order->watch;
    struct vial_error missing = { 0 };
    auto_copy struct copy copy = { 0 };
    char name[128] = BUILD_STEP_NAME ":";

    if ((step->kind == TEMPLATE_COPY && copy_read(b, step, &copy, err) < 0) ||
        step_key(b, step, &copy, name + strlen(name), err) < 0)
        return -1;
    *cached = !b->order->no_cache && stand_on(b, name, &missing) == 0;
    w->step(w->context, b->number, b->t->count, step, *cached);
    if (*cached)
        return 0;
    if (do_files(b, step, &copy, name, err) < 0)
        return -1;
    return stand_on(b, name, err);
}

static int do_step(struct build *b, const struct template_step *step,
                   struct vial_error *err)
{
    const struct build_watch *w = &b->order->watch;
    int64_t began_ns = clock_now_ns();
    bool cached = false;

    if (is_cancelled(b))
        return fail(err, VIAL_E_CANCELLED, "the build was cancelled");
    if (!has_files(step->kind))
        w->step(w->context, b->number, b->t->count, step, false);
    if (step_plain(b, step, err) < 0 ||
        (has_files(step->kind) && step_files(b, step, &cached, err) < 0))
        return -1;
    (void)json_array_append_new(
        b->steps,
        json_pack("{s:I, s:I, s:s, s:s, s:b, s:f}", "step", (json_int_t)b->number,
                  "line", (json_int_t)step->line, "instruction",
                  template_word(step->kind), "text", step->text, "cached", cached,
                  "duration_ms", clock_ms_between(began_ns, clock_now_ns())));
    return 0;
}

static int find_base(struct build *b, const char *from, struct vial_error *err)
{
    const struct vial_pull pull = { .name = from,
                                    .cancel_fd = b->order->watch.cancel_fd,
                                    .progress = b->order->watch.pulling,
                                    .context = b->order->watch.context };
    auto_json json_t *pulled = NULL;
    struct vial_error missing = { 0 };

    if (strlen(from) >= sizeof(b->image))
        return fail(err, VIAL_E_TEMPLATE, "the base's name is too long");
    if (stand_on(b, from, &missing) == 0)
        return 0;
    if (!fail_is(&missing, VIAL_E_IMAGE)) {
        *err = missing;
        return -1;
    }
    return inside_store_pull(b->order->engine, &pull, &pulled, err) < 0
               ? -1
               : stand_on(b, from, err);
}

/* What the base says of itself holds until an instruction says otherwise. */
static int read_base(struct build *b, struct vial_error *err)
{
    auto_free char *store = inside_store(b->order->engine, err);
    auto_stored struct stored_image base = STORED_IMAGE_NONE;

    if (!store || store_look(store, b->digest, &base, err) < 0)
        return -1;
    strv_copy(&b->env, &base.env);
    if (!words_lookup(&b->env, "PATH", strlen("PATH")))
        strv_push(&b->env, "PATH=" PATH_SEARCH); /* what programs have without one */
    b->cwd = base.cwd ? strdup(base.cwd) : NULL;
    if (base.uid)
        (void)snprintf(b->user, sizeof(b->user), "%u:%u", base.uid, base.gid);
    return b->env.failed || (base.cwd && !b->cwd) ? fail_memory(err) : 0;
}

static int begin(struct build *b, struct vial_error *err)
{
    auto_free char *from = NULL;
    struct image_name name;

    if (image_parse(b->order->name, &name, err) < 0)
        return -1;
    if (name.pinned)
        return fail(err, VIAL_E_VALUE, "a template has a name, not a digest");
    if (strcmp(name.name, BUILD_STEP_NAME) == 0) {
        (void)fail(err, VIAL_E_VALUE, "'" BUILD_STEP_NAME "' is what steps are called");
        return fail_remedy(err, "call it otherwise: '--tag NAME'");
    }
    if (step_check_network(b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->t->count && b->t->steps[i].line < b->t->from_line; i++)
        if (step_plain(b, &b->t->steps[i], err) < 0)
            return -1;
    from = build_expand(b, b->t->from, err);
    if (!from)
        return -1;
    if (find_base(b, from, err) < 0 || read_base(b, err) < 0)
        return fail_in(err, "line %u: FROM %s", b->t->from_line, from);
    return 0;
}

static json_t *joined(const struct strv *words)
{
    auto_str struct str all = { 0 };

    for (size_t i = 0; i < words->count; i++)
        str_printf(&all, "%s%s", i ? " " : "", words->items[i]);
    return json_string(all.data ? all.data : "");
}

static json_t *final_config(struct build *b)
{
    json_t *labels = build_member(b->config, "Labels");
    json_t *env = json_array();

    for (size_t i = 0; i < b->env.count; i++)
        (void)json_array_append_new(env, json_string(b->env.items[i]));
    (void)json_object_set_new(b->config, "Env", env);
    (void)json_object_set_new(b->config, "WorkingDir",
                              json_string(b->cwd ? b->cwd : ""));
    (void)json_object_set_new(b->config, "User", json_string(b->user));
    (void)json_object_set_new(labels, CONFIG_LABEL, json_string("1"));
    if (b->t->imports.count > 0)
        (void)json_object_set_new(labels, CONFIG_LABEL_IMPORTS, joined(&b->t->imports));
    if (b->t->pool > 0)
        (void)json_object_set_new(labels, CONFIG_LABEL_POOL,
                                  json_sprintf("%u", b->t->pool));
    return b->config;
}

static int finish(struct build *b, json_t **out, struct vial_error *err)
{
    const struct vial_pull named = { .name = b->order->name, .cancel_fd = -1 };
    const struct image_ends ends = {
        .in_fd = -1, .out_fd = -1, .base = b->digest, .config = final_config(b)
    };
    auto_json json_t *image = NULL;

    if (inside_store_do(b->order->engine, "configure", &named, &ends, &image, err) < 0)
        return -1;
    *out =
        json_pack("{s:s, s:O, s:O, s:O, s:O}", "image", b->order->name, "digest",
                  json_object_get(image, "digest"), "id", json_object_get(image, "id"),
                  "size", json_object_get(image, "size"), "steps", b->steps);
    return *out ? 0 : fail_memory(err);
}

static int all_steps(struct build *b, struct vial_error *err)
{
    for (size_t i = 0; i < b->t->count; i++) {
        const struct template_step *step = &b->t->steps[i];

        b->number = i + 1;
        if (do_step(b, step, err) == 0)
            continue;
        if (fail_is(err, VIAL_E_CANCELLED))
            return -1;
        return fail_in(err, "step %zu of %zu, line %u: %s %.100s", b->number,
                       b->t->count, step->line, template_word(step->kind), step->text);
    }
    return 0;
}

static void build_done(struct build *b)
{
    context_done(&b->context);
    strv_done(&b->env);
    strv_done(&b->args);
    free(b->cwd);
    json_decref(b->config);
    json_decref(b->steps);
}

int template_build(const struct template *t, const struct build_order *order,
                   json_t **out, struct vial_error *err)
{
    struct build b = { .t = t,
                       .order = order,
                       .context = CONTEXT_NONE,
                       .config = json_object(),
                       .steps = json_array() };
    int rc = begin(&b, err);

    rc = rc < 0 ? rc : all_steps(&b, err);
    rc = rc < 0 ? rc : finish(&b, out, err);
    build_done(&b);
    return rc;
}
