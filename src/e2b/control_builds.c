/* SPDX-License-Identifier: Apache-2.0 */

/* Templates that callers build: a build is asked for, its files are brought, it is
 * started, and its log is read until it is over. */

#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/unit.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "model/value.h"

#define CPUS_MOST    1024
#define MEMORY_LEAST 16 /* MiB */
#define MEMORY_MOST  (INT64_C(1) << 24)

/* "name" or "name:tag" */
static int read_name(struct saved *o, json_t *value, struct vial_error *err)
{
    const char *name = value_string(value);
    size_t len = name ? strcspn(name, ":") : 0;

    if (!name || len == 0)
        return fail(err, VIAL_E_VALUE, "'name' is missing");
    free(o->name);
    o->name = strndup(name, len);
    if (name[len])
        strv_push(&o->tags, name + len + 1);
    return o->name ? 0 : fail_memory(err);
}

static int read_number(json_t *value, const char *name, int64_t least, int64_t most,
                       int64_t *out, struct vial_error *err)
{
    *out = json_integer_value(value);
    if (!json_is_integer(value) || *out < least || *out > most)
        return fail(err, VIAL_E_VALUE, "'%s' is not a whole number from %lld to %lld",
                    name, (long long)least, (long long)most);
    return 0;
}

static int read_member(struct saved *o, const char *name, json_t *value,
                       struct vial_error *err)
{
    struct shown shown = value_show(name, strlen(name));

    if (json_is_null(value))
        return 0;
    if (strcmp(name, "name") == 0 || strcmp(name, "alias") == 0)
        return read_name(o, value, err);
    if (strcmp(name, "tags") == 0)
        return control_read_tags(&o->tags, value, err);
    if (strcmp(name, "cpuCount") == 0) {
        if (read_number(value, name, 1, CPUS_MOST, &o->milli_cpus, err) < 0)
            return -1;
        o->milli_cpus *= 1000;
        return 0;
    }
    if (strcmp(name, "memoryMB") == 0)
        return read_number(value, name, MEMORY_LEAST, MEMORY_MOST, &o->memory_mb, err);
    return fail(err, VIAL_E_UNSUPPORTED, "'%s' is not supported by this server",
                shown.text);
}

/* What a template is to be: O's name, tags and size. */
static int read_order(struct ask *a, struct saved *o, struct vial_error *err)
{
    auto_json json_t *body = NULL;
    const char *name;
    json_t *value;

    if (ask_body(a, &body, err) < 0)
        return -1;
    json_object_foreach(body, name,
                        value) if (read_member(o, name, value, err) < 0) return -1;
    if (!o->name)
        return fail(err, VIAL_E_VALUE, "'name' is missing");
    if (o->tags.count == 0)
        strv_push(&o->tags, SAVED_TAG);
    return strv_ok(&o->tags) ? 0 : fail_memory(err);
}

/* What the end would refuse is refused before anybody waits for it. */
static int check_saving(const struct ask *a, struct vial_error *err)
{
    const struct settings *s = a->turn->settings;

    if (policy_check_list(&s->policy, POLICY_ID_snapshots, "snapshot", "save", err) < 0)
        return -1;
    if (control_may_write(s))
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               "sandboxes cannot be written to here, so no template can be built");
    return fail_remedy(err, "its operator says so by 'defaults.root_mode', or the "
                            "policy's 'privileges' or 'require'");
}

void control_build_request(struct ask *a)
{
    auto_saved struct saved o = { 0 };
    auto_saved struct saved s = { 0 };
    auto_build struct build *b = NULL;
    struct vial_error err = { 0 };

    if (read_order(a, &o, &err) < 0 || check_saving(a, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    if (control_is_operators(a, o.name)) {
        ask_refuse(a, 403, "template '%s' is the operator's", o.name);
        return;
    }
    if (saved_name_template(a->owner.name, &o, &s, &err) == 0 &&
        control_remove_replaced(a, &err) == 0)
        b = builds_add(a, &s, &err);
    if (!b) {
        ask_error(a, &err);
        return;
    }
    ask_json(a, 202,
             json_pack("{s:s, s:s, s:b, s:[s], s:[s], s:o}", "templateID", o.name,
                       "buildID", b->saved.build, "public", 0, "names", o.name,
                       "aliases", o.name, "tags", control_texts(&o.tags)));
}

/* E2B's own images, by the name that SDKs have for them: the operator's templates. */
static const char *as_template(const char *image)
{
    static const char *const table[][2] = {
        { "e2bdev/base", "base" },
        { "e2bdev/base:latest", "base" },
        { "e2bdev/code-interpreter", "code-interpreter-v1" },
        { "e2bdev/code-interpreter:latest", "code-interpreter-v1" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i][0], image) == 0)
            return table[i][1];
    return NULL;
}

/* What the build stands on, as the request for a sandbox has it. */
static int find_base(struct ask *a, json_t *body, struct wish *w,
                     struct saved_list *saved, struct vial_error *err)
{
    const char *image = value_string(json_object_get(body, "fromImage"));
    const char *name = value_string(json_object_get(body, "fromTemplate"));

    if (!image == !name)
        return fail(err, VIAL_E_VALUE, "one of 'fromImage' and 'fromTemplate' is due");
    name = name ? name : as_template(image);
    if (!name) {
        w->image = image;
        return *image ? 0 : fail(err, VIAL_E_VALUE, "'fromImage' is empty");
    }
    w->template_name = name;
    if (control_find_template(a, w, saved, err) < 0)
        return -1;
    if (*w->image)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "template '%.64s' is the host's programs, of which nothing can be built",
               name);
    return fail_remedy(err, "have a template with an image: 'serve.e2b_templates: "
                            "[base=IMAGE]'");
}

static int check_members(json_t *body, struct vial_error *err)
{
    static const char *const known[] = { "fromImage", "fromTemplate", "steps",
                                         "force" };

    if (ask_check_members(body, known, sizeof(known) / sizeof(known[0]), "", err) == 0)
        return 0;
    if (json_is_string(json_object_get(body, "startCmd")) ||
        json_is_string(json_object_get(body, "readyCmd")))
        return fail_remedy(err, "a template has files, and no memory of what has run: "
                                "start it in each sandbox, by commands.run");
    return -1;
}

/* Each file that is copied has come. */
static int check_files(struct build *b, const struct build_plan *plan,
                       struct vial_error *err)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].kind == STEP_COPY && build_file(b, plan->steps[i].hash) < 0)
            return fail(err, VIAL_E_VALUE,
                        "step %zu: the files of its 'filesHash' were not uploaded",
                        i + 1);
    return 0;
}

/* What passes by is told to who asked; all else is how the build ended. */
static bool may_be_tried_again(const struct vial_error *err)
{
    unsigned status = ask_status_of(err);

    return status == 429 || status == 503;
}

static struct box *open_and_start(struct ask *a, struct build *b, const struct wish *w,
                                  struct build_plan *plan, struct vial_error *err)
{
    struct box *box;

    if (ask_start(a, err) < 0)
        return NULL;
    box = control_open_apart(a, w, err);
    if (box && build_start(b, box, plan, err) == 0)
        return box;
    if (box)
        control_close_apart(box);
    ask_ended(a->caller);
    return NULL;
}

static void start(struct ask *a, struct build *b, const struct wish *w,
                  struct build_plan *plan)
{
    struct vial_error err = { 0 };
    char words[ASK_WORDS];

    if (!build_begin(b)) {
        ask_refuse(a, 409, "build '%s' has begun already", b->saved.build);
        return;
    }
    if (!open_and_start(a, b, w, plan, &err)) {
        if (may_be_tried_again(&err) || ask_is_gone(a)) {
            build_put_back(b);
            ask_error(a, &err);
            return;
        }
        ask_words(&err, words);
        build_end(b, "base", words);
    }
    ask_json(a, 202, json_object());
}

void control_build_start(struct ask *a)
{
    auto_build struct build *b = builds_find(a->e2b, a->owner.name, a->arg, a->arg2);
    auto_json json_t *body = NULL;
    auto_saved_list struct saved_list saved = { 0 };
    struct build_plan plan = { 0 };
    struct wish w = { .seconds = BUILD_SECONDS, .template_name = a->arg };
    struct vial_error err = { 0 };
    size_t len;

    (void)web_body(a->web, &len);
    if (!b) {
        ask_refuse(a, 404, "build '%s' of template '%s' not found", a->arg2, a->arg);
    } else if (len > BUILD_BODY) {
        ask_refuse(a, 413, "the steps are more than %zu KiB", BUILD_BODY >> 10);
    } else if (ask_body(a, &body, &err) < 0 || check_members(body, &err) < 0 ||
               build_plan_read(json_object_get(body, "steps"), &plan, &err) < 0 ||
               check_files(b, &plan, &err) < 0) {
        ask_error(a, &err);
    } else if (find_base(a, body, &w, &saved, &err) < 0) {
        control_refuse(a, &err);
    } else {
        w.template_name = b->saved.name;
        w.milli_cpus = b->saved.milli_cpus ? b->saved.milli_cpus : w.milli_cpus;
        w.memory_mb = b->saved.memory_mb ? b->saved.memory_mb : w.memory_mb;
        start(a, b, &w, &plan);
    }
    build_plan_done(&plan);
}

/* One that is over long since is known by its image alone. */
static void answer_saved(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };

    if (saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    for (size_t i = 0; i < all.count; i++)
        if (saved_is_named(&all.items[i], a->arg) &&
            strcmp(all.items[i].build, a->arg2) == 0) {
            ask_json(a, 200,
                     json_pack("{s:s, s:s, s:s, s:[], s:[]}", "templateID", a->arg,
                               "buildID", a->arg2, "status", "ready", "logs",
                               "logEntries"));
            return;
        }
    ask_refuse(a, 404, "build '%s' of template '%s' not found", a->arg2, a->arg);
}

void control_build_status(struct ask *a)
{
    auto_build struct build *b = builds_find(a->e2b, a->owner.name, a->arg, a->arg2);
    const char *text = web_query(a->web, "logsOffset");
    int64_t offset = 0;

    if (text && (unit_parse_count(text, &offset) < 0 || offset < 0))
        ask_refuse(a, 400, "'logsOffset' is not a number");
    else if (b)
        ask_json(a, 200, build_status(b, (size_t)offset));
    else
        answer_saved(a);
}
