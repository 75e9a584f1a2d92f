/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pod_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "model/value.h"

#define NAME_MOST       63u /* of a label's value, and of a key behind its '/' */
#define PREFIX_MOST     253u
#define ANNOTATION_MOST 8192u

#define SMALL    "abcdefghijklmnopqrstuvwxyz0123456789"
#define LETTERS_ SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

int pod_settings_copy(struct pod_settings *to, const struct pod_settings *from)
{
    strv_copy(&to->node_selector, &from->node_selector);
    strv_copy(&to->tolerations, &from->tolerations);
    strv_copy(&to->pull_secrets, &from->pull_secrets);
    strv_copy(&to->labels, &from->labels);
    strv_copy(&to->annotations, &from->annotations);
    to->priority_class = from->priority_class ? strdup(from->priority_class) : NULL;
    return strv_ok(&to->node_selector) && strv_ok(&to->tolerations) &&
                   strv_ok(&to->pull_secrets) && strv_ok(&to->labels) &&
                   strv_ok(&to->annotations) &&
                   !to->priority_class == !from->priority_class
               ? 0
               : -1;
}

void pod_settings_done(struct pod_settings *s)
{
    strv_done(&s->node_selector);
    strv_done(&s->tolerations);
    strv_done(&s->pull_secrets);
    strv_done(&s->labels);
    strv_done(&s->annotations);
    free(s->priority_class);
    *s = (struct pod_settings){ 0 };
}

/* Whether the LEN bytes at TEXT are of SET and of "-_." as far as MIDDLE has them, with
 * one of SET at both ends. */
static bool is_word(const char *text, size_t len, const char *set, const char *middle)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(set, text[i]) &&
            (i == 0 || i + 1 == len || !strchr(middle, text[i])))
            return false;
    return len > 0;
}

static bool is_name(const char *text, size_t len)
{
    return len <= NAME_MOST && is_word(text, len, LETTERS_, "-_.");
}

/* A DNS subdomain: of objects, and before the '/' of a key. */
static bool is_object(const char *text, size_t len)
{
    return len <= PREFIX_MOST && is_word(text, len, SMALL, "-.");
}

static bool is_key(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    size_t prefix = slash ? (size_t)(slash - text) : 0;

    if (!slash)
        return is_name(text, len);
    return is_object(text, prefix) && is_name(slash + 1, len - prefix - 1);
}

static bool is_label_value(const char *text)
{
    return !*text || is_name(text, strlen(text));
}

size_t pod_pair_key(const char *pair)
{
    size_t len = strcspn(pair, "=");

    return pair[len] == '=' && is_key(pair, len) ? len : 0;
}

static bool is_label(const char *pair)
{
    size_t len = pod_pair_key(pair);

    return len > 0 && is_label_value(pair + len + 1);
}

static bool is_annotation(const char *pair)
{
    size_t len = pod_pair_key(pair);

    return len > 0 && strlen(pair) <= ANNOTATION_MOST &&
           value_is_plain(pair, strlen(pair));
}

static bool is_object_name(const char *text)
{
    return is_object(text, strlen(text));
}

static bool has_key(const char *pair, const char *key)
{
    size_t len = strlen(key);

    return strncmp(pair, key, len) == 0 && pair[len] == '=';
}

/* By these vial finds its pods again. */
static bool is_vials(const char *pair)
{
    return str_starts(pair, "vial.") || has_key(pair, "app.kubernetes.io/managed-by");
}

/* Vial asks for nodes that its guest is made for. */
static bool is_nodes(const char *pair)
{
    return has_key(pair, "kubernetes.io/os") || has_key(pair, "kubernetes.io/arch");
}

/* "container.apparmor.security.beta.kubernetes.io/…" and their like: what a node's
 * kernel confines a pod by, said in an annotation. */
static bool is_a_wall(const char *pair)
{
    static const char *const ends[] = { "security.alpha.kubernetes.io/",
                                        "security.beta.kubernetes.io/" };
    const char *slash = strchr(pair, '/');
    size_t prefix = slash ? (size_t)(slash - pair) + 1 : 0;

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        size_t len = strlen(ends[i]);

        if (prefix >= len && strncmp(pair + prefix - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

static bool is_kept_label(const char *pair)
{
    return is_vials(pair) || is_a_wall(pair);
}

bool pod_toleration_read(const char *text, struct pod_toleration *out)
{
    static const char *const effects[] = { "NoSchedule", "PreferNoSchedule",
                                           "NoExecute" };
    size_t key = strcspn(text, "=:");
    const char *value = text[key] == '=' ? text + key + 1 : "";
    size_t len = strcspn(value, ":");
    const char *effect = strchr(text, ':');

    *out = (struct pod_toleration){ .equal = text[key] == '=' };
    if (!is_key(text, key) || (len > 0 && !is_name(value, len)))
        return false;
    (void)snprintf(out->key, sizeof(out->key), "%.*s", (int)key, text);
    (void)snprintf(out->value, sizeof(out->value), "%.*s", (int)len, value);
    for (size_t i = 0; effect && i < sizeof(effects) / sizeof(*effects); i++)
        if (str_eq(effect + 1, effects[i]))
            out->effect = effects[i];
    return !effect || out->effect;
}

static bool is_toleration(const char *text)
{
    struct pod_toleration t;

    return pod_toleration_read(text, &t);
}

static int refuse(const char *name, const char *text, const char *what,
                  struct vial_error *err)
{
    const struct field f = { .name = name };

    return value_refuse(&f, text, strlen(text), what, err);
}

static int refuse_own(const char *name, const char *text, struct vial_error *err)
{
    struct shown shown;

    shown = value_show(text, strlen(text));
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is what vial itself says of its pods", name,
               shown.text);
    return fail_remedy(err, "leave it out");
}

/* What an entry of LIST has to be, and what it must not be. */
struct rule {
    const char *name;
    const struct strv *list;
    bool (*is)(const char *text);
    const char *what;
    bool (*is_not)(const char *text);
};

static int check_list(const struct rule *r, struct vial_error *err)
{
    for (size_t i = 0; i < r->list->count; i++) {
        const char *text = r->list->items[i];

        if (!r->is(text))
            return refuse(r->name, text, r->what, err);
        if (r->is_not && r->is_not(text))
            return refuse_own(r->name, text, err);
    }
    return 0;
}

int pod_settings_check(const struct pod_settings *s, struct vial_error *err)
{
    static const char pair[] = "KEY=VALUE, both as Kubernetes has labels";
    const struct rule rules[] = {
        { "node_selector", &s->node_selector, is_label, pair, is_nodes },
        { "tolerations", &s->tolerations, is_toleration,
          "KEY or KEY=VALUE, with :NoSchedule, :PreferNoSchedule, :NoExecute or nothing "
          "behind it",
          NULL },
        { "pull_secrets", &s->pull_secrets, is_object_name, "the name of a Secret",
          NULL },
        { "labels", &s->labels, is_label, pair, is_kept_label },
        { "annotations", &s->annotations, is_annotation,
          "KEY=VALUE, plain text with a key as Kubernetes has them", is_kept_label },
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (check_list(&rules[i], err) < 0)
            return -1;
    if (s->priority_class && !is_object_name(s->priority_class))
        return refuse("priority_class", s->priority_class,
                      "the name of a PriorityClass", err);
    return 0;
}
