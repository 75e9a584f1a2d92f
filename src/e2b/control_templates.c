/* SPDX-License-Identifier: Apache-2.0 */

/* Templates: those that the operator names, and those that callers have built. */

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "e2b/control.h"

bool control_is_operators(const struct ask *a, const char *name)
{
    const char *image;

    return template_find(a->turn->settings, name, &image);
}

void control_template_alias(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    bool found = control_is_operators(a, a->arg);

    if (!found && saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    if (found || saved_find(&all, a->arg))
        ask_json(a, 200, json_pack("{s:s, s:b}", "templateID", a->arg, "public", 0));
    else
        ask_refuse(a, 404, "template '%s' not found", a->arg);
}

/* All builds of a template go with its name; of "name:tag" the one. */
void control_template_delete(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    const struct saved *first;

    if (control_is_operators(a, a->arg)) {
        ask_refuse(a, 403, "template '%s' is the operator's", a->arg);
        return;
    }
    if (saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    first = saved_find_any(&all, a->arg);
    if (!first) {
        ask_refuse(a, 404, "template '%s' not found", a->arg);
        return;
    }
    for (size_t i = 0; i < all.count && !err.code[0]; i++)
        if (&all.items[i] == first || saved_is_named(&all.items[i], a->arg))
            (void)!inside_snapshot_remove(a->turn->engine, a->owner.name,
                                          all.items[i].image, &err);
    if (fail_is(&err, VIAL_E_BUSY))
        ask_refuse(a, 409, "'%s' is used by a sandbox; kill that before", a->arg);
    else if (err.code[0])
        ask_error(a, &err);
    else
        ask_done(a);
}

static json_t *names_of(const struct saved *s)
{
    json_t *out = json_array();

    for (size_t i = 0; i < s->tags.count; i++)
        (void)json_array_append_new(
            out, strcmp(s->tags.items[i], SAVED_TAG) == 0
                     ? json_string(s->name)
                     : json_sprintf("%s:%s", s->name, s->tags.items[i]));
    return out;
}

/* Whether a newer build of the same name stands before S. */
static bool is_newest(const struct saved_list *all, const struct saved *s)
{
    for (const struct saved *i = all->items; i < s; i++)
        if (saved_is_named(i, s->name))
            return false;
    return true;
}

static json_t *template_json(const struct ask *a, const struct saved_list *all,
                             const struct saved *s)
{
    const struct vial_request *d = &a->turn->settings->defaults;
    char made[CONTROL_STAMP];
    int64_t count = 0;

    for (size_t i = 0; i < all->count; i++)
        count += saved_is_named(&all->items[i], s->name);
    control_stamp(s->made_ms, made);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:b, s:[s], s:o, s:s, s:s, s:n, s:n, s:i, s:I, s:s, "
        "s:s}",
        "templateID", s->name, "buildID", s->build, "cpuCount",
        (json_int_t)(((s->milli_cpus ? s->milli_cpus : d->cpus) + 999) / 1000),
        "memoryMB", (json_int_t)(s->memory_mb ? s->memory_mb : d->memory >> 20),
        "diskSizeMB", (json_int_t)(d->disk >> 20), "public", 0, "aliases", s->name,
        "names", names_of(s), "createdAt", made, "updatedAt", made, "createdBy",
        "lastSpawnedAt", "spawnCount", 0, "buildCount", (json_int_t)count,
        "envdVersion", CONTROL_ENVD, "buildStatus", "ready");
}

/* What the caller has built, the newest first. */
void control_templates(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    json_t *out;

    if (saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    out = json_array();
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].template && is_newest(&all, &all.items[i]))
            (void)json_array_append_new(out, template_json(a, &all, &all.items[i]));
    ask_json(a, 200, out);
}

/* The build that a tag means is the newest that has it. */
static void add_tags(const struct saved *s, json_t *seen, json_t *out)
{
    char made[CONTROL_STAMP];

    control_stamp(s->made_ms, made);
    for (size_t i = 0; i < s->tags.count; i++) {
        const char *tag = s->tags.items[i];

        if (json_object_get(seen, tag))
            continue;
        (void)json_object_set_new(seen, tag, json_true());
        (void)json_array_append_new(out,
                                    json_pack("{s:s, s:s, s:s}", "tag", tag, "buildID",
                                              s->build, "createdAt", made));
    }
}

void control_template_tags(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    auto_json json_t *seen = json_object();
    auto_json json_t *out = json_array();
    struct vial_error err = { 0 };

    if (saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    for (size_t i = 0; i < all.count; i++)
        if (saved_is_named(&all.items[i], a->arg))
            add_tags(&all.items[i], seen, out);
    if (json_array_size(out) == 0 && !control_is_operators(a, a->arg))
        ask_refuse(a, 404, "template '%s' not found", a->arg);
    else
        ask_json(a, 200, json_incref(out));
}
