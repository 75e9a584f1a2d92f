/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/saved.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "e2b/control.h"

#define BETWEEN "__"
#define LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"
#define PARTS   (5 + SAVED_TAGS)
#define CHANCE  32  /* digits */
#define WORD    128 /* letters, as the store has them */

void saved_done(struct saved *s)
{
    free(s->image);
    free(s->name);
    free(s->sandbox);
    strv_done(&s->tags);
    *s = (struct saved){ 0 };
}

void saved_list_done(struct saved_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        saved_done(&list->items[i]);
    free(list->items);
    *list = (struct saved_list){ 0 };
}

static bool is_word(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= SAVED_NAME && strspn(text, LETTERS) == len &&
           text[0] != '_' && text[len - 1] != '_' && !strstr(text, BETWEEN);
}

/* Splits TEXT where it stands. */
static size_t split(char *text, char *parts[PARTS])
{
    size_t count = 0;

    while (text && count < PARTS) {
        char *end = strstr(text, BETWEEN);

        parts[count++] = text;
        if (end)
            *end = '\0';
        text = end ? end + strlen(BETWEEN) : NULL;
    }
    return text ? 0 : count;
}

static int64_t number(const char *text)
{
    return (int64_t)strtoull(text, NULL, 16);
}

static void set_ids(struct saved *s, const char *chance)
{
    (void)snprintf(s->id, sizeof(s->id), "snp%s", chance);
    (void)snprintf(s->build, sizeof(s->build), "%.8s-%.4s-%.4s-%.4s-%.12s", chance,
                   chance + 8, chance + 12, chance + 16, chance + 20);
}

static void read_template(struct saved *s, char *const *parts, size_t count)
{
    s->template = true;
    s->milli_cpus = number(parts[2]);
    s->memory_mb = number(parts[3]);
    s->name = strdup(parts[4]);
    s->sandbox = strdup("");
    for (size_t i = 5; i < count; i++)
        strv_push(&s->tags, parts[i]);
}

/* False: it was not saved by this wire. */
static bool read_image(const char *image, struct saved *out)
{
    const char *slash = strrchr(image, '/');
    const char *colon = slash ? strrchr(slash, ':') : NULL;
    auto_free char *word =
        colon ? strndup(slash + 1, (size_t)(colon - slash - 1)) : NULL;
    char *parts[PARTS];
    size_t count = word ? split(word, parts) : 0;

    *out = (struct saved){ 0 };
    if (count < 3 || strlen(colon + 1) != CHANCE || strlen(parts[0]) != 1)
        return false;
    out->made_ms = number(parts[1]);
    set_ids(out, colon + 1);
    if (parts[0][0] == 't' && count >= 6) {
        read_template(out, parts, count);
    } else if (parts[0][0] == 's' && count <= 4) {
        out->sandbox = strdup(parts[2]);
        out->name = strdup(count > 3 ? parts[3] : "");
    } else {
        return false;
    }
    out->image = strdup(image);
    if (out->image && out->name && out->sandbox && !out->tags.failed)
        return true;
    saved_done(out);
    return false;
}

static int newest_first(const void *a, const void *b)
{
    const struct saved *one = a;
    const struct saved *other = b;

    if (one->made_ms != other->made_ms)
        return one->made_ms < other->made_ms ? 1 : -1;
    return strcmp(one->id, other->id);
}

int saved_read(struct vial_engine *engine, const char *owner, struct saved_list *out,
               struct vial_error *err)
{
    auto_strv struct strv names = { 0 };

    *out = (struct saved_list){ 0 };
    if (inside_snapshots(engine, owner, &names, err) < 0)
        return -1;
    out->items = calloc(names.count + 1, sizeof(*out->items));
    if (!out->items)
        return fail_memory(err);
    for (size_t i = 0; i < names.count; i++)
        if (read_image(names.items[i], &out->items[out->count]))
            out->count++;
    qsort(out->items, out->count, sizeof(*out->items), newest_first);
    return 0;
}

static bool has_tag(const struct saved *s, const char *tag)
{
    for (size_t i = 0; i < s->tags.count; i++)
        if (strcmp(s->tags.items[i], tag) == 0)
            return true;
    return false;
}

static bool is_meant(const struct saved *s, const char *reference)
{
    size_t len = strcspn(reference, ":");
    const char *tag = reference[len] ? reference + len + 1 : SAVED_TAG;

    if (s->template && strcmp(reference, s->build) == 0)
        return true;
    if (!s->template && strcmp(reference, s->id) == 0)
        return true;
    if (!s->name[0] || strncmp(s->name, reference, len) != 0 || s->name[len])
        return false;
    return s->template ? has_tag(s, tag) : strcmp(tag, SAVED_TAG) == 0;
}

const struct saved *saved_find(const struct saved_list *list, const char *reference)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_meant(&list->items[i], reference))
            return &list->items[i];
    return NULL;
}

bool saved_is_named(const struct saved *s, const char *name)
{
    return s->template && strcmp(s->name, name) == 0;
}

const struct saved *saved_find_any(const struct saved_list *list, const char *reference)
{
    const struct saved *found = saved_find(list, reference);

    for (size_t i = 0; !found && i < list->count; i++)
        if (saved_is_named(&list->items[i], reference))
            found = &list->items[i];
    return found;
}

static int not_a_word(const char *what, const char *text, struct vial_error *err)
{
    return fail(
        err, VIAL_E_VALUE,
        "%s '%.60s' is not of letters a-z, digits, '-', '_' and '.', %d at most", what,
        text, SAVED_NAME);
}

static int place(const char *owner, const struct str *word, struct saved *out,
                 struct vial_error *err)
{
    auto_str struct str whole = { 0 };

    if (word->failed)
        return fail_memory(err);
    if (inside_snapshot_name(false, owner, word->data, &whole, err) < 0)
        return -1;
    return read_image(whole.data, out) ? 0 : fail_memory(err);
}

int saved_name_snapshot(const char *owner, const char *sandbox, const char *name,
                        struct saved *out, struct vial_error *err)
{
    auto_str struct str word = { 0 };

    if (name && !is_word(name))
        return not_a_word("the name", name, err);
    str_printf(&word, "s" BETWEEN "%" PRIx64 BETWEEN "%s%s%s",
               (uint64_t)control_now_ms(), sandbox, name ? BETWEEN : "",
               name ? name : "");
    return place(owner, &word, out, err);
}

int saved_name_template(const char *owner, const struct saved *wanted,
                        struct saved *out, struct vial_error *err)
{
    const struct strv *tags = &wanted->tags;
    auto_str struct str word = { 0 };

    if (!is_word(wanted->name))
        return not_a_word("the name", wanted->name, err);
    if (tags->count > SAVED_TAGS)
        return fail(err, VIAL_E_VALUE, "there are more than %u tags", SAVED_TAGS);
    str_printf(&word,
               "t" BETWEEN "%" PRIx64 BETWEEN "%" PRIx64 BETWEEN "%" PRIx64 BETWEEN
               "%s",
               (uint64_t)control_now_ms(), (uint64_t)wanted->milli_cpus,
               (uint64_t)wanted->memory_mb, wanted->name);
    for (size_t i = 0; i < tags->count; i++) {
        if (!is_word(tags->items[i]))
            return not_a_word("the tag", tags->items[i], err);
        str_printf(&word, BETWEEN "%s", tags->items[i]);
    }
    if (word.len > WORD)
        return fail(err, VIAL_E_VALUE, "the name and its tags are too long together");
    return place(owner, &word, out, err);
}
