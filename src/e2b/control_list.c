/* SPDX-License-Identifier: Apache-2.0 */

/* Sandboxes in pages, newest first, by what is asked of them. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unit.h"
#include "e2b/control.h"

#define PAGE 100

struct query {
    json_t *metadata; /* name -> value, decoded once; owned */
    const char *template_name;
    int64_t after_ms; /* started then or later */
    int64_t limit;
    bool running, paused, oldest_first;
    int64_t from_ms; /* behind this one */
    char from_id[BOX_ID];
};

/* What is no escape stays as it is. */
static void decode(struct str *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = text[i] == '%' && i + 2 < len ? text_unhex(text[i + 1]) : -1;
        int low = high >= 0 ? text_unhex(text[i + 2]) : -1;

        if (low >= 0 && (high || low)) {
            str_putc(out, (char)(high << 4 | low));
            i += 2;
        } else {
            str_putc(out, text[i]);
        }
    }
}

static int add_pair(json_t *out, const char *pair, size_t len, struct vial_error *err)
{
    const char *equals = memchr(pair, '=', len);
    auto_str struct str name = { 0 };
    auto_str struct str value = { 0 };

    if (!equals)
        return fail(err, VIAL_E_VALUE, "'metadata' is not of the form name=value&…");
    decode(&name, pair, (size_t)(equals - pair));
    decode(&value, equals + 1, len - (size_t)(equals - pair) - 1);
    str_puts(&name, "");
    str_puts(&value, "");
    if (!str_ok(&name) || !str_ok(&value) ||
        json_object_set_new(out, name.data ? name.data : "",
                            json_string(value.data ? value.data : "")) < 0)
        return fail(err, VIAL_E_VALUE, "'metadata' is not text");
    return 0;
}

static int read_metadata(const char *text, json_t *out, struct vial_error *err)
{
    while (text && *text) {
        size_t len = strcspn(text, "&");

        /* Each is compared with all that each sandbox has. */
        if (json_object_size(out) >= ASK_WORDS_COUNT)
            return fail(err, VIAL_E_VALUE, "'metadata' has more than %d names",
                        ASK_WORDS_COUNT);
        if (add_pair(out, text, len, err) < 0)
            return -1;
        text += len + (text[len] == '&');
    }
    return 0;
}

/* SDKs encode names and values once or twice before the query itself is. */
static bool is_same(const char *asked, const char *has)
{
    auto_str struct str again = { 0 };

    if (strcmp(asked, has) == 0)
        return true;
    decode(&again, asked, strlen(asked));
    return str_ok(&again) && again.data && strcmp(again.data, has) == 0;
}

static bool has_pair(const json_t *metadata, const char *name, const char *value)
{
    const char *key;
    json_t *text;

    json_object_foreach((json_t *)(uintptr_t)metadata, key,
                        text) if (is_same(name, key) &&
                                  is_same(value, json_string_value(text))) return true;
    return false;
}

static int read_token(const char *text, struct query *q, struct vial_error *err)
{
    char *end = NULL;

    if (!text || !*text)
        return 0;
    q->from_ms = (int64_t)strtoull(text, &end, 16);
    if (end == text || *end != '-' || strlen(end + 1) >= sizeof(q->from_id) ||
        q->from_ms <= 0)
        return fail(err, VIAL_E_VALUE, "'nextToken' is not one of ours");
    (void)snprintf(q->from_id, sizeof(q->from_id), "%s", end + 1);
    return 0;
}

static int read_stamp(const char *text, int64_t *out, struct vial_error *err)
{
    struct tm parts = { 0 };
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    int64_t fraction = 0;

    if (!text)
        return 0;
    if (!rest)
        return fail(err, VIAL_E_VALUE, "'startedAfter' is not a time");
    if (*rest == '.')
        fraction = (int64_t)(strtod(rest, NULL) * 1000);
    *out = (int64_t)timegm(&parts) * 1000 + fraction;
    return 0;
}

static int read_query(struct ask *a, struct query *q, struct vial_error *err)
{
    const char *limit = web_query(a->web, "limit");
    const char *state = web_query(a->web, "state");
    const char *order = web_query(a->web, "order");

    *q = (struct query){ .limit = PAGE, .metadata = json_object() };
    if (limit &&
        (unit_parse_count(limit, &q->limit) < 0 || q->limit < 1 || q->limit > PAGE))
        return fail(err, VIAL_E_VALUE, "'limit' is not from 1 to %d", PAGE);
    q->template_name = web_query(a->web, "template");
    q->running = !state || strstr(state, "running");
    q->paused =
        state ? strstr(state, "paused") != NULL : strcmp(a->path, "/sandboxes") != 0;
    q->oldest_first = order && strcmp(order, "asc") == 0;
    if (read_metadata(web_query(a->web, "metadata"), q->metadata, err) < 0 ||
        read_stamp(web_query(a->web, "startedAfter"), &q->after_ms, err) < 0)
        return -1;
    return read_token(web_query(a->web, "nextToken"), q, err);
}

static bool is_wanted(const struct query *q, const struct box *box)
{
    const char *key;
    json_t *value;

    if (!(atomic_load(&box->paused_ms) ? q->paused : q->running) ||
        box->started_ms < q->after_ms ||
        (q->template_name && strcmp(q->template_name, box->template_name) != 0))
        return false;
    json_object_foreach(q->metadata, key,
                        value) if (!has_pair(box->metadata, key,
                                             json_string_value(value))) return false;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const struct box *one = *(struct box *const *)a;
    const struct box *other = *(struct box *const *)b;

    if (one->started_ms != other->started_ms)
        return one->started_ms < other->started_ms ? 1 : -1;
    return strcmp(one->id, other->id);
}

static int oldest_first(const void *a, const void *b)
{
    return newest_first(b, a);
}

/* Whether it comes behind the last one of the page before. */
static bool is_behind(const struct query *q, const struct box *box)
{
    int order;

    if (!q->from_id[0])
        return true;
    order = q->from_ms == box->started_ms  ? strcmp(box->id, q->from_id)
            : box->started_ms < q->from_ms ? 1
                                           : -1;
    return q->oldest_first ? order < 0 : order > 0;
}

static void set_number(struct ask *a, const char *name, size_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%zu", value);
    (void)web_set_header(a->web, name, text);
}

static json_t *page_of(struct ask *a, const struct query *q, struct box **all,
                       size_t count)
{
    json_t *list = json_array();
    const struct box *last = NULL;
    char token[64];
    bool more = false;

    for (size_t i = 0; i < count && !more; i++) {
        if (!is_wanted(q, all[i]) || !is_behind(q, all[i]))
            continue;
        more = json_array_size(list) == (size_t)q->limit;
        if (more)
            break;
        (void)json_array_append_new(list, control_listed(all[i]));
        last = all[i];
    }
    if (more && last) {
        (void)snprintf(token, sizeof(token), "%" PRIx64 "-%s",
                       (uint64_t)last->started_ms, last->id);
        (void)web_set_header(a->web, "X-Next-Token", token);
    }
    return list;
}

static void answer(struct ask *a, struct query *q)
{
    size_t count;
    size_t wanted = 0;
    auto_free struct box **all = boxes_of(a->e2b, a->owner.name, &count);

    if (!all) {
        ask_refuse(a, 500, "out of memory");
        return;
    }
    qsort(all, count, sizeof(*all), q->oldest_first ? oldest_first : newest_first);
    for (size_t i = 0; i < count; i++)
        wanted += is_wanted(q, all[i]);
    set_number(a, "X-Total-Running", wanted);
    ask_json(a, 200, page_of(a, q, all, count));
    for (size_t i = 0; i < count; i++)
        box_release(all[i]);
}

void control_list(struct ask *a)
{
    struct vial_error err = { 0 };
    struct query q;

    if (read_query(a, &q, &err) < 0)
        ask_error(a, &err);
    else
        answer(a, &q);
    json_decref(q.metadata);
}
