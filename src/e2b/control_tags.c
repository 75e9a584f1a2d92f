/* SPDX-License-Identifier: Apache-2.0 */

/* Tags of templates. They stand in the image's name (e2b/saved.h), so that one that is
 * given later needs another image: of the same files, for which a sandbox is opened and
 * saved as it is. */

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "e2b/control.h"
#include "model/value.h"

int control_read_tags(struct strv *out, const json_t *value, struct vial_error *err)
{
    if (!json_is_array(value))
        return fail(err, VIAL_E_VALUE, "'tags' is not a list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *tag = value_string(json_array_get(value, i));

        if (!tag)
            return fail(err, VIAL_E_VALUE, "'tags' are not all texts");
        if (!strv_has(out, tag))
            strv_push(out, tag);
    }
    return out->failed ? fail_memory(err) : 0;
}

/* Whether one that is newer than S, of the same name, has TAG. */
static bool is_overtaken(const struct saved_list *all, const struct saved *s,
                         const char *tag)
{
    for (const struct saved *i = all->items; i < s; i++)
        if (saved_is_named(i, s->name) && strv_has(&i->tags, tag))
            return true;
    return false;
}

static bool is_replaced(const struct saved_list *all, const struct saved *s)
{
    for (size_t i = 0; i < s->tags.count; i++)
        if (!is_overtaken(all, s, s->tags.items[i]))
            return false;
    return s->template;
}

/* One that a sandbox uses stays. */
int control_remove_replaced(struct ask *a, struct vial_error *err)
{
    auto_saved_list struct saved_list all = { 0 };

    if (saved_read(a->turn->engine, a->owner.name, &all, err) < 0)
        return -1;
    for (size_t i = 0; i < all.count; i++) {
        struct vial_error ignored = { 0 };

        if (is_replaced(&all, &all.items[i]))
            (void)!inside_snapshot_remove(a->turn->engine, a->owner.name,
                                          all.items[i].image, &ignored);
    }
    return 0;
}

static int save_again(struct ask *a, const struct saved *from, const struct strv *tags,
                      struct saved *out, struct vial_error *err)
{
    const struct saved wanted = { .name = from->name,
                                  .tags = *tags,
                                  .milli_cpus = from->milli_cpus,
                                  .memory_mb = from->memory_mb };
    const struct wish w = { .seconds = CONTROL_USUAL_S,
                            .template_name = from->name,
                            .image = from->image,
                            .saved = from,
                            .milli_cpus = from->milli_cpus,
                            .memory_mb = from->memory_mb };
    struct box *box;
    int rc;

    if (saved_name_template(a->owner.name, &wanted, out, err) < 0)
        return -1;
    box = control_open_apart(a, &w, err);
    if (!box)
        return -1;
    rc = control_save(a, box, out->image, err);
    control_close_apart(box);
    return rc;
}

/* The body: MEMBER, a text, and tags, of which there is one at least. */
static int read_body(struct ask *a, const char *member, json_t **body,
                     const char **named, struct strv *tags, struct vial_error *err)
{
    if (ask_body(a, body, err) < 0)
        return -1;
    *named = value_string(json_object_get(*body, member));
    if (!*named)
        return fail(err, VIAL_E_VALUE, "'%s' is not a text", member);
    if (control_read_tags(tags, json_object_get(*body, "tags"), err) < 0)
        return -1;
    return tags->count ? 0 : fail(err, VIAL_E_VALUE, "'tags' has none");
}

json_t *control_texts(const struct strv *list)
{
    json_t *out = json_array();

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(out, json_string(list->items[i]));
    return out;
}

void control_tags_assign(struct ask *a)
{
    auto_json json_t *body = NULL;
    auto_strv struct strv tags = { 0 };
    auto_saved_list struct saved_list all = { 0 };
    auto_saved struct saved made = { 0 };
    struct vial_error err = { 0 };
    const struct saved *found = NULL;
    const char *target = NULL;

    if (read_body(a, "target", &body, &target, &tags, &err) < 0 ||
        control_remove_replaced(a, &err) < 0 ||
        saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    found = saved_find(&all, target);
    if (!found || !found->template)
        ask_refuse(a, 404, "template '%.200s' not found", target);
    else if (save_again(a, found, &tags, &made, &err) < 0)
        ask_error(a, &err);
    else
        ask_json(a, 201,
                 json_pack("{s:o, s:s}", "tags", control_texts(&tags), "buildID",
                           made.build));
}

/* What S means to callers once TAGS are gone from it: 0 nothing at all, 1 as much as
 * before, -1 less. */
static int left_of(const struct saved_list *all, const struct saved *s,
                   const struct strv *tags)
{
    size_t gone = 0;
    size_t stay = 0;

    for (size_t i = 0; i < s->tags.count; i++)
        if (strv_has(tags, s->tags.items[i]))
            gone++;
        else if (!is_overtaken(all, s, s->tags.items[i]))
            stay++;
    return gone == 0 ? 1 : stay == 0 ? 0 : -1;
}

/* A build goes with its last tag; it does not lose some and keep others. */
static int remove_tags(struct ask *a, const struct saved_list *all, const char *name,
                       const struct strv *tags, struct vial_error *err)
{
    for (size_t i = 0; i < all->count; i++)
        if (saved_is_named(&all->items[i], name) &&
            left_of(all, &all->items[i], tags) < 0) {
            (void)fail(err, VIAL_E_UNSUPPORTED,
                       "build '%s' has other tags, too, and one that has some of its "
                       "tags is not supported by this server",
                       all->items[i].build);
            return fail_remedy(err, "remove all of its tags");
        }
    for (size_t i = 0; i < all->count; i++)
        if (saved_is_named(&all->items[i], name) &&
            left_of(all, &all->items[i], tags) == 0 &&
            inside_snapshot_remove(a->turn->engine, a->owner.name, all->items[i].image,
                                   err) < 0)
            return -1;
    return 0;
}

void control_tags_remove(struct ask *a)
{
    auto_json json_t *body = NULL;
    auto_strv struct strv tags = { 0 };
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    const struct saved *found = NULL;
    const char *name = NULL;

    if (read_body(a, "name", &body, &name, &tags, &err) < 0 ||
        saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    found = saved_find_any(&all, name);
    if (!found || !found->template)
        ask_refuse(a, 404, "template '%.200s' not found", name);
    else if (remove_tags(a, &all, name, &tags, &err) == 0)
        ask_done(a);
    else if (fail_is(&err, VIAL_E_BUSY))
        ask_refuse(a, 409, "'%.200s' is used by a sandbox; kill that before", name);
    else
        control_refuse(a, &err);
}
