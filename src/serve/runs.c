/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "serve/route.h"

#define LIST_MOST 1000

/* Whose runs the caller may see. */
static const char *seen_by(const struct call *c)
{
    return c->who.scopes & SCOPE_ADMIN ? NULL : c->who.name;
}

static void refuse(struct call *c)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_ROUTE, "there is no such run, or none that is remembered");
    (void)fail_remedy(&err, "'vial logs', or GET /v1/runs, lists those that are");
    call_error(c, &err);
}

void runs_list(struct call *c)
{
    struct vial_error err = { 0 };
    int64_t limit = 100;

    if (call_number(c, "limit", &limit, &err) < 0) {
        call_error(c, &err);
        return;
    }
    call_json(c, 200,
              history_list(&c->serve->history,
                           call_flag(c, "all") ? seen_by(c) : c->who.name,
                           limit < LIST_MOST ? (size_t)limit : LIST_MOST));
}

void runs_get(struct call *c)
{
    json_t *found = history_find(&c->serve->history, seen_by(c), c->params[0]);

    if (found)
        call_json(c, 200, found);
    else
        refuse(c);
}

void runs_cancel(struct call *c)
{
    if (history_cancel(&c->serve->history, seen_by(c), c->params[0]))
        call_done(c);
    else
        refuse(c);
}
