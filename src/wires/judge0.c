/* SPDX-License-Identifier: Apache-2.0 */

/* Judge0's routes for submissions. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "wires/faces.h"
#include "wires/judge0_info.h"
#include "wires/submissions.h"
#include "wires/wires.h"

#define BATCH_MOST 20u
#define PAGE_MOST  100
#define CODE_LINE  60u
#define TOO_MANY   "number of submissions in a batch should be less than or equal to 20"
#define NOT_TEXT                                                                       \
    "some attributes for this submission cannot be converted to UTF-8, use "           \
    "base64_encoded=true query parameter"

static void refuse(struct call *c, unsigned status, const struct vial_error *err)
{
    if (status == 401 || status == 403)
        call_text(c, status, NULL, "", 0);
    else if (status == 404 || status == 405)
        call_json(c, 404, json_pack("{s:i, s:s}", "status", 404, "error", "Not Found"));
    else if (status == 429 || status == 503) {
        wires_try_later(c);
        call_json(c, 503, json_pack("{s:s}", "error", "queue is full"));
    } else
        call_json(c, status, json_pack("{s:s}", "error", err->message));
}

static void refuse_text(struct call *c, unsigned status, const char *text)
{
    call_json(c, status, json_pack("{s:s}", "error", text));
}

static void refuse_full(struct call *c)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_BUSY, "too many submissions are under way");
    face_refuse(c, &face_judge0, &err);
}

/* What is deleted is told in base64, whatever was asked for. */
static bool is_deleting(const struct call *c)
{
    return strcmp(web_method(c->web), "DELETE") == 0;
}

/* How an answer is wanted. */
struct view {
    bool base64;
    bool not_text; /* something in it was none, and is missing */
};

/* Broken after 60 characters, and with a newline at its end. */
static json_t *coded(const char *data, size_t len)
{
    auto_str struct str flat = { 0 };
    auto_str struct str text = { 0 };

    text_base64(&flat, data, len);
    for (size_t at = 0; at < flat.len; at += CODE_LINE) {
        size_t part = flat.len - at < CODE_LINE ? flat.len - at : CODE_LINE;

        str_add(&text, flat.data + at, part);
        str_putc(&text, '\n');
    }
    return str_ok(&text) && str_ok(&flat) ? json_string(text.data ? text.data : "")
                                          : NULL;
}

static json_t *text_json(struct view *v, const char *data, size_t len)
{
    if (!data)
        return json_null();
    if (v->base64)
        return coded(data, len);
    if (text_is_utf8(data, len))
        return json_stringn(data, len);
    v->not_text = true;
    return json_null();
}

/* What is empty is null. */
static json_t *stream_json(struct view *v, const struct str *s)
{
    return s->len ? text_json(v, s->data, s->len) : json_null();
}

static json_t *limit_json(const struct submission *s, enum judge0_limit id)
{
    double value = s->asked.limits[id];

    return judge0_bounds[id].seconds ? json_sprintf("%.1f", value)
                                     : json_integer((json_int_t)value);
}

static json_t *seconds_json(const struct submission *s, double seconds)
{
    return s->timed ? json_sprintf("%.3f", seconds) : json_null();
}

static json_t *stamp_json(const char *stamp)
{
    return *stamp ? json_string(stamp) : json_null();
}

static json_t *words_json(const char *words)
{
    return words ? json_string(words) : json_null();
}

typedef json_t *field_json(struct view *v, const struct submission *s);

#define FIELD_JSON(name, value)                                                        \
    static json_t *tell_##name(struct view *v, const struct submission *s)             \
    {                                                                                  \
        (void)v;                                                                       \
        (void)s;                                                                       \
        return value;                                                                  \
    }
#include "wires/judge0_fields.def"
#undef FIELD_JSON

static const struct {
    const char *name;
    field_json *tell;
} all_fields[] = {
#define FIELD_JSON(name, value) { #name, tell_##name },
#include "wires/judge0_fields.def"
#undef FIELD_JSON
};

#define FIELDS (sizeof(all_fields) / sizeof(all_fields[0]))

static field_json *find_field(const char *name, size_t len)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (strlen(all_fields[i].name) == len &&
            strncmp(all_fields[i].name, name, len) == 0)
            return all_fields[i].tell;
    return NULL;
}

#define USUAL_FIELDS "token,time,memory,stdout,stderr,compile_output,message,status"

/* The names that `fields` asks for, as a list with commas; NULL: it was answered. */
static const char *wanted_fields(struct call *c)
{
    const char *asked = web_query(c->web, "fields");
    char text[160];

    if (!asked || !*asked)
        return USUAL_FIELDS;
    if (strcmp(asked, "*") == 0)
        return asked;
    for (const char *at = asked; *at; at += strcspn(at, ",")) {
        size_t len;

        at += *at == ',';
        len = strcspn(at, ",");
        if (len == 0 || find_field(at, len))
            continue;
        (void)snprintf(text, sizeof(text), "invalid fields: [%.*s]",
                       (int)(len < 100 ? len : 100), at);
        refuse_text(c, 400, text);
        return NULL;
    }
    return asked;
}

/* With the lock of all submissions held. */
static json_t *tell_fields(struct view *v, const struct submission *s,
                           const char *names)
{
    json_t *told = json_object();

    for (size_t i = 0; strcmp(names, "*") == 0 && i < FIELDS; i++)
        (void)json_object_set_new(told, all_fields[i].name, all_fields[i].tell(v, s));
    for (const char *at = names; *at && *names != '*'; at += strcspn(at, ",")) {
        auto_free char *name = NULL;
        size_t len;

        at += *at == ',';
        len = strcspn(at, ",");
        name = strndup(at, len);
        if (name && len > 0 && !json_object_get(told, name))
            (void)json_object_set_new(told, name, find_field(at, len)(v, s));
    }
    return told;
}

static bool allows(const struct call *c, const char *what)
{
    return strv_has(&c->gen->settings->serve.judge0, what);
}

/* Whether texts are base64, here and there. */
static bool is_encoded(const struct call *c)
{
    if (web_query(c->web, "base64_encoded"))
        return call_flag(c, "base64_encoded");
    return allows(c, "encoded");
}

static json_t *submission_json(struct call *c, const struct submission *s,
                               const char *names, bool *not_text)
{
    struct submissions *all = &c->serve->wires->submissions;
    struct view v = { .base64 = is_encoded(c) || is_deleting(c) };
    json_t *told;

    (void)pthread_mutex_lock(&all->lock);
    told = tell_fields(&v, s, names);
    (void)pthread_mutex_unlock(&all->lock);
    *not_text = v.not_text;
    return told;
}

char *judge0_callback_text(struct submissions *all, const struct submission *s)
{
    struct view v = { .base64 = true };
    auto_json json_t *told = NULL;

    (void)pthread_mutex_lock(&all->lock);
    told = tell_fields(&v, s, USUAL_FIELDS);
    (void)pthread_mutex_unlock(&all->lock);
    return told ? json_dumps(told, JSON_COMPACT) : NULL;
}

/* Whether C pays for an answer with these of them, some of which may be NULL, until it
 * was sent. */
static bool pays(struct call *c, struct submission *const *subs, size_t count)
{
    struct submissions *all = &c->serve->wires->submissions;
    uint64_t bytes = 0;

    (void)pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < count; i++)
        bytes += subs[i] ? subs[i]->bytes : 0;
    (void)pthread_mutex_unlock(&all->lock);
    return web_pay(c->web, bytes);
}

static void refuse_unpaid(struct call *c)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_BUSY, "there is no memory left for this answer");
    face_refuse(c, &face_judge0, &err);
}

/* Makes one of GIVEN; NULL: *WRONG says what is wrong with it, or nothing if there is
 * no room. */
static struct submission *create(struct call *c, json_t *given, json_t **wrong)
{
    struct judge0_asked asked;
    struct submission *sub = NULL;
    auto_str struct str language = { 0 };

    if (judge0_read(c, given, is_encoded(c), &asked, wrong) == 0) {
        (void)judge0_language(c, asked.language_id, &language);
        if (submissions_add(c, &asked, language.data ? language.data : "", &sub) < 0)
            sub = NULL;
    }
    judge0_asked_done(&asked);
    return sub;
}

static void answer_waited(struct call *c, struct submission *sub, const char *names)
{
    bool not_text = false;
    json_t *told;

    submission_run(c, sub);
    if (sub->late) {
        refuse_full(c);
        return;
    }
    if (!pays(c, &sub, 1)) {
        refuse_unpaid(c);
        return;
    }
    told = submission_json(c, sub, names, &not_text);
    if (!not_text) {
        call_json(c, 201, told);
        return;
    }
    json_decref(told);
    call_json(c, 201, json_pack("{s:s, s:s}", "error", NOT_TEXT, "token", sub->token));
}

static bool read_body(struct call *c)
{
    struct vial_error err;

    if (call_body(c, &err) == 0)
        return true;
    refuse_text(c, 400, err.message);
    return false;
}

static void submit(struct call *c)
{
    json_t *wrong = NULL;
    struct submission *sub;
    const char *names = wanted_fields(c);

    if (!names || !read_body(c))
        return;
    sub = create(c, c->body, &wrong);
    if (wrong) {
        call_json(c, 422, wrong);
    } else if (!sub) {
        refuse_full(c);
    } else if (call_flag(c, "wait")) {
        answer_waited(c, sub, names);
        submission_call_back(c, sub);
        submission_release(c, sub);
    } else {
        if (submission_start(c, sub) < 0)
            refuse_full(c);
        else
            call_json(c, 201, json_pack("{s:s}", "token", sub->token));
        submission_release(c, sub);
    }
}

static void show_held(struct call *c, struct submission *sub, const char *names)
{
    bool not_text = false;
    json_t *told;

    if (!pays(c, &sub, 1)) {
        refuse_unpaid(c);
        return;
    }
    told = submission_json(c, sub, names, &not_text);
    if (!not_text) {
        call_json(c, 200, told);
        return;
    }
    json_decref(told);
    refuse_text(c, 400, NOT_TEXT);
}

/* One that is to be deleted is told for the last time. */
static void show(struct call *c)
{
    const char *names = wanted_fields(c);
    struct submission *sub;

    if (!names)
        return;
    sub = submissions_find(c, c->params[0]);
    if (!sub) {
        refuse(c, 404, NULL);
        return;
    }
    if (is_deleting(c) && !submission_delete(c, sub))
        refuse_text(c, 400, "submission cannot be deleted before it has ended");
    else
        show_held(c, sub, names);
    submission_release(c, sub);
}

static json_t *submit_one(struct call *c, json_t *given, bool *good)
{
    json_t *wrong = NULL;
    struct submission *sub = create(c, given, &wrong);
    json_t *told = wrong;

    *good = sub && submission_start(c, sub) == 0;
    if (*good)
        told = json_pack("{s:s}", "token", sub->token);
    else if (!wrong)
        told = json_pack("{s:s}", "error", "queue is full");
    if (sub)
        submission_release(c, sub);
    return told;
}

static void submit_batch(struct call *c)
{
    json_t *given, *told;
    unsigned good = 0;

    if (!read_body(c))
        return;
    given = json_object_get(c->body, "submissions");
    if (json_array_size(given) == 0) {
        refuse_text(c, 400, "there should be at least one submission in a batch");
        return;
    }
    if (json_array_size(given) > BATCH_MOST) {
        refuse_text(c, 400, TOO_MANY);
        return;
    }
    told = json_array();
    for (size_t i = 0; i < json_array_size(given); i++) {
        bool one = false;

        (void)json_array_append_new(told,
                                    submit_one(c, json_array_get(given, i), &one));
        good += one;
    }
    call_json(c, good ? 201 : 422, told);
}

/* Those of a list with commas, held, NULL for what there is not. What is wrong with the
 * list; NULL: nothing. */
static const char *find_listed(struct call *c, const char *tokens,
                               struct submission *found[BATCH_MOST], size_t *count)
{
    for (const char *at = tokens; at && *at; (*count)++) {
        size_t len = strcspn(at, ",");
        auto_free char *token = strndup(at, len);
        struct submission *sub = NULL;

        if (*count == BATCH_MOST)
            return TOO_MANY;
        if (token)
            sub = submissions_find(c, token);
        found[*count] = sub;
        for (size_t i = 0; sub && i < *count; i++)
            if (found[i] == sub) {
                (*count)++;
                return "a token should be in a batch once";
            }
        at += len + (at[len] == ',');
    }
    return NULL;
}

static void tell_batch(struct call *c, struct submission *const *found, size_t count,
                       const char *names)
{
    json_t *list = json_array();
    bool not_text;

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(
            list,
            found[i] ? submission_json(c, found[i], names, &not_text) : json_null());
    call_json(c, 200, json_pack("{s:o}", "submissions", list));
}

static void show_batch(struct call *c)
{
    struct submission *found[BATCH_MOST];
    const char *tokens = web_query(c->web, "tokens");
    const char *names = wanted_fields(c);
    const char *wrong;
    size_t count = 0;

    if (!names)
        return;
    wrong =
        find_listed(c, tokens ? tokens : web_header(c->web, "tokens"), found, &count);
    if (wrong)
        refuse_text(c, 400, wrong);
    else if (!pays(c, found, count))
        refuse_unpaid(c);
    else
        tell_batch(c, found, count, names);
    for (size_t i = 0; i < count; i++)
        if (found[i])
            submission_release(c, found[i]);
}

static json_t *page_number(int64_t page, int64_t pages)
{
    return page >= 1 && page <= pages ? json_integer(page) : json_null();
}

static json_t *meta_json(int64_t page, int64_t each, size_t total)
{
    int64_t pages = ((int64_t)total + each - 1) / each;

    return json_pack("{s:I, s:o, s:o, s:I, s:I}", "current_page", (json_int_t)page,
                     "next_page", page_number(page + 1, pages), "prev_page",
                     page_number(page - 1, pages), "total_pages", (json_int_t)pages,
                     "total_count", (json_int_t)total);
}

static void list(struct call *c)
{
    struct submission *found[PAGE_MOST];
    const char *names = wanted_fields(c);
    int64_t page = 1, each = 20;
    struct vial_error err;
    json_t *told;
    size_t got = 0, total;
    bool not_text, paid;

    if (!names)
        return;
    if (call_number(c, "page", &page, &err) < 0 ||
        call_number(c, "per_page", &each, &err) < 0 || page < 1 || each < 1 ||
        page > 1000000) {
        refuse_text(c, 400, "invalid page");
        return;
    }
    if (each > PAGE_MOST)
        each = PAGE_MOST;
    total = submissions_list(c, (size_t)((page - 1) * each), (size_t)each, found, &got);
    told = json_array();
    paid = pays(c, found, got);
    for (size_t i = 0; i < got; i++) {
        if (paid)
            (void)json_array_append_new(told,
                                        submission_json(c, found[i], names, &not_text));
        submission_release(c, found[i]);
    }
    if (paid) {
        call_json(c, 200,
                  json_pack("{s:o, s:o}", "submissions", told, "meta",
                            meta_json(page, each, total)));
        return;
    }
    json_decref(told);
    refuse_unpaid(c);
}

static void forget(struct call *c)
{
    if (allows(c, "delete"))
        show(c);
    else
        refuse_text(c, 400, "delete not allowed");
}

/* Who gets here has a token that is known. */
static void known(struct call *c)
{
    call_text(c, 200, NULL, "", 0);
}

static const struct face_route routes_here[] = {
    { "POST", "/submissions", SCOPE_RUN, submit },
    { "GET", "/submissions", SCOPE_RUN, list },
    { "POST", "/submissions/batch", SCOPE_RUN, submit_batch },
    { "GET", "/submissions/batch", SCOPE_RUN, show_batch },
    { "GET", "/submissions/{}", SCOPE_RUN, show },
    { "DELETE", "/submissions/{}", SCOPE_RUN, forget },
    { "GET", "/languages", SCOPE_RUN, judge0_languages },
    { "GET", "/languages/all", SCOPE_RUN, judge0_languages },
    { "GET", "/languages/{}", SCOPE_RUN, judge0_one_language },
    { "GET", "/statuses", SCOPE_RUN, judge0_statuses },
    { "GET", "/about", SCOPE_RUN, judge0_about },
    { "GET", "/version", SCOPE_RUN, judge0_version },
    { "GET", "/isolate", SCOPE_RUN, judge0_isolate },
    { "GET", "/license", SCOPE_RUN, judge0_license },
    { "GET", "/config_info", SCOPE_RUN, judge0_config },
    { "GET", "/workers", SCOPE_RUN, judge0_workers },
    { "GET", "/system_info", SCOPE_ADMIN, judge0_nothing },
    { "GET", "/statistics", SCOPE_ADMIN, judge0_nothing },
    { "POST", "/authenticate", SCOPE_RUN, known },
    { "POST", "/authorize", SCOPE_ADMIN, known },
    { 0 },
};

static const char *const bases[] = { "", NULL };

const struct face face_judge0 = {
    .name = "judge0",
    .bases = bases,
    .routes = routes_here,
    .refuse = refuse,
};
