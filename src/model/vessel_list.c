/* SPDX-License-Identifier: Apache-2.0 */
#include "model/vessel_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/str.h"

/* The ports come last, so that they are a list of their own. */
static bool copy_texts(struct vial_vessel *v, struct strv *texts)
{
    const char **const members[] = { &v->driver, &v->name,    &v->state, &v->id,
                                     &v->vessel, &v->session, &v->task,  &v->image };
    size_t before;

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        *members[i] = strv_keep(texts, *members[i]);
    before = texts->count;
    for (size_t i = 0; v->ports && v->ports[i]; i++)
        strv_push(texts, v->ports[i]);
    v->ports =
        texts->count > before ? (const char *const *)texts->items + before : NULL;
    return strv_ok(texts);
}

static void texts_free(struct strv *texts)
{
    if (texts)
        strv_done(texts);
    free(texts);
}

int vessels_add(struct vial_vessels *list, const struct vial_vessel *v)
{
    struct vial_vessel copy = *v;
    struct vial_vessel *items =
        reallocarray(list->items, list->count + 1, sizeof(*items));
    struct strv *texts = calloc(1, sizeof(*texts));

    if (items)
        list->items = items;
    if (!items || !texts || !copy_texts(&copy, texts)) {
        texts_free(texts);
        return -1;
    }
    copy.texts = texts;
    items[list->count++] = copy;
    return 0;
}

static bool is_of(const struct vial_vessel *v, const char *prefix)
{
    size_t len = strlen(prefix);

    return v->name && strncmp(v->name, prefix, len) == 0 && v->name[len] == '-';
}

void vessels_keep(struct vial_vessels *list, const char *prefix)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        if (is_of(&list->items[i], prefix))
            list->items[kept++] = list->items[i];
        else
            texts_free(list->items[i].texts);
    list->count = kept;
}

void vial_vessels_free(struct vial_vessels *vessels)
{
    for (size_t i = 0; i < vessels->count; i++)
        texts_free(vessels->items[i].texts);
    free(vessels->items);
    *vessels = (struct vial_vessels){ 0 };
}

static json_t *process_json(const struct vial_vessel *v)
{
    return json_pack("{s:s, s:s*, s:i, s:i, s:s, s:b}", "driver", v->driver, "name",
                     v->name, "pid", v->pid, "owner", v->owner, "state", v->state,
                     "orphan", v->orphan);
}

static json_t *container_json(const struct vial_vessel *v)
{
    json_t *ports = json_array();

    for (size_t i = 0; v->ports && v->ports[i]; i++)
        (void)json_array_append_new(ports, json_string(v->ports[i]));
    return json_pack("{s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:o, s:o, s:b}",
                     "driver", v->driver, "id", v->id, "name", v->name, "vessel",
                     v->vessel, "session", v->session, "task", v->task, "image",
                     v->image, "state", v->state, "created",
                     v->created ? json_integer(v->created) : json_null(), "ports",
                     ports, "orphan", v->orphan);
}

json_t *vessels_json(const struct vial_vessels *list)
{
    auto_json json_t *all = json_array();

    for (size_t i = 0; i < list->count; i++) {
        const struct vial_vessel *v = &list->items[i];

        if (json_array_append_new(all, v->pid ? process_json(v) : container_json(v)) <
            0)
            return NULL;
    }
    return ptr_take(&all);
}

static int decode_one(struct vial_vessels *list, json_t *o)
{
    auto_strv struct strv ports = { 0 };
    struct vial_vessel v = { 0 };
    const struct {
        const char *name, **member;
    } rows[] = { { "driver", &v.driver },   { "id", &v.id },
                 { "name", &v.name },       { "vessel", &v.vessel },
                 { "session", &v.session }, { "task", &v.task },
                 { "image", &v.image },     { "state", &v.state } };
    json_t *port = NULL;
    size_t i = 0;

    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        *rows[k].member = json_string_value(json_object_get(o, rows[k].name));
    json_array_foreach(json_object_get(o, "ports"), i, port)
    {
        if (json_is_string(port))
            strv_push(&ports, json_string_value(port));
    }
    v.created = json_integer_value(json_object_get(o, "created"));
    v.orphan = json_is_true(json_object_get(o, "orphan"));
    v.ports = (const char *const *)ports.items;
    return strv_ok(&ports) ? vessels_add(list, &v) : -1;
}

int vessels_decode(struct vial_vessels *list, json_t *all)
{
    json_t *one = NULL;
    size_t i = 0;

    json_array_foreach(all, i, one)
    {
        if (decode_one(list, one) < 0)
            return -1;
    }
    return 0;
}
