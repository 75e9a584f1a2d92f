/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/refusals.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/thread.h"
#include "model/result.h"
#include "model/value.h"

#define MINUTE_S  60
#define OF_A_ROW  5u  /* records of their own a minute */
#define OF_ALL    60u /* the same, of all rows together */
#define PATH_MOST 200u

bool refusals_is_one(unsigned status)
{
    static const unsigned all[] = { 400, 401, 403, 409, 413, 422,
                                    429, 499, 501, 503, 507 };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] == status)
            return true;
    return false;
}

int refusals_init(struct refusals *r, refusals_failed *failed, void *context)
{
    pthread_condattr_t attributes;

    *r = (struct refusals){ .failed = failed, .context = context };
    if (pthread_mutex_init(&r->lock, NULL) != 0 ||
        pthread_mutex_init(&r->writing, NULL) != 0 ||
        pthread_condattr_init(&attributes) != 0)
        return -1;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    return pthread_cond_init(&r->changed, &attributes) == 0 ? 0 : -1;
}

/* Takes RECORD. */
static void append(struct refusals *r, json_t *record)
{
    auto_json json_t *one = record;
    struct vial_error err = { 0 };

    (void)pthread_mutex_lock(&r->writing);
    if (one && r->audit && audit_append(r->audit, one, &err) < 0)
        r->failed(r->context, &err);
    (void)pthread_mutex_unlock(&r->writing);
}

/* With the lock held: the row's and, when it has none and there is no room, that of
 * all others. */
static struct refusals_row *row_of(struct refusals *r, const char *who,
                                   const char *code)
{
    struct refusals_row *row = r->rows;

    while (row < r->rows + r->row_count &&
           (strcmp(row->who, who) != 0 || strcmp(row->code, code) != 0))
        row++;
    if (row < r->rows + r->row_count)
        return row;
    if (r->row_count >= REFUSALS_ROWS) {
        who = code = "*";
        row = &r->rows[REFUSALS_ROWS];
        r->row_count = REFUSALS_ROWS + 1;
    } else {
        r->row_count++;
    }
    if (!row->who[0] && !row->code[0]) {
        (void)snprintf(row->who, sizeof(row->who), "%s", who);
        (void)snprintf(row->code, sizeof(row->code), "%s", code);
    }
    return row;
}

/* Whether it is to have a record of its own. */
static bool note(struct refusals *r, const char *who, const char *code, bool wanted)
{
    struct refusals_row *row;
    bool alone = false;

    (void)pthread_mutex_lock(&r->lock);
    if (r->kept) {
        row = row_of(r, who, code);
        alone = wanted && row->seen++ < OF_A_ROW && r->written < OF_ALL;
        r->written += alone;
        row->more += !alone;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return alone;
}

void refusals_count(struct refusals *r, const char *who, const char *code)
{
    (void)note(r, who, code, false);
}

static json_t *plain(const char *text, size_t most)
{
    auto_str struct str safe = { 0 };
    size_t len = strlen(text);

    audit_redact(&safe, text, len < most ? len : most);
    return value_text_json(safe.data ? safe.data : "", safe.len);
}

static json_t *record_of(const struct refusal *what)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:o, s:o, s:o*, s:o}", "event",
                     "refused", "caller", "name", what->caller, "address",
                     what->address, "correlation", what->request, "method",
                     plain(what->method, 16), "path", plain(what->path, PATH_MOST),
                     "status", what->status ? json_integer(what->status) : NULL,
                     "error", error_json(what->why));
}

void refusals_record(struct refusals *r, const struct refusal *what)
{
    const char *who = what->caller[0] ? what->caller : what->address;

    if (note(r, who, what->why->code, true))
        append(r, record_of(what));
}

/* With the lock held, which is given away for a while: the minute is over. */
static void conclude(struct refusals *r)
{
    struct refusals_row rows[REFUSALS_ROWS + 1];
    size_t count = r->row_count;

    memcpy(rows, r->rows, sizeof(rows));
    memset(r->rows, 0, sizeof(r->rows));
    r->row_count = 0;
    r->written = 0;
    (void)pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < count; i++)
        if (rows[i].more)
            append(r,
                   json_pack("{s:s, s:{s:o}, s:s, s:I}", "event", "refused.more",
                             "caller", "name", plain(rows[i].who, sizeof(rows[i].who)),
                             "code", rows[i].code, "count", (json_int_t)rows[i].more));
    (void)pthread_mutex_lock(&r->lock);
}

static void *clerk(void *context)
{
    struct refusals *r = context;
    struct timespec until;

    (void)pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += MINUTE_S;
        while (!r->ending && pthread_cond_timedwait(&r->changed, &r->lock, &until) == 0)
            ;
        conclude(r);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return NULL;
}

int refusals_use(struct refusals *r, const struct audit_options *options,
                 struct vial_error *err)
{
    struct audit *fresh = NULL;

    if (options->path && audit_open(options, &fresh, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&r->lock);
    conclude(r);
    r->kept = fresh != NULL;
    if (fresh && !r->going)
        r->going = thread_start(&r->clerk, THREAD_STACK, clerk, r) == 0;
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_mutex_lock(&r->writing);
    audit_close(r->audit);
    r->audit = fresh;
    (void)pthread_mutex_unlock(&r->writing);
    return 0;
}

void refusals_done(struct refusals *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->ending = true;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    if (r->going)
        (void)pthread_join(r->clerk, NULL);
    audit_close(r->audit);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_mutex_destroy(&r->writing);
}
