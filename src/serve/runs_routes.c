/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/fail.h"
#include "serve/route.h"

#define LIST_MOST 1000

/* Whose runs the caller may see. */
static const char *seen_by(const struct call *c)
{
    return c->who.scopes & SCOPE_ADMIN ? NULL : c->who.name;
}

/* Which run is meant: the caller's own, unless it may see others'. */
static int read_wish(const struct call *c, struct history_wish *out,
                     struct vial_error *err)
{
    bool admin = c->who.scopes & SCOPE_ADMIN;
    const char *whose = web_query(c->web, "caller");

    if (whose && !admin && strcmp(whose, c->who.name) != 0)
        return fail(err, VIAL_E_SCOPE, "'%s' may not see runs of others", c->who.name);
    *out = (struct history_wish){ .caller = whose ? whose : c->who.name,
                                  .id = c->params[0],
                                  .others = admin && !whose };
    return 0;
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
    struct history_wish wish;
    struct vial_error err = { 0 };
    json_t *found = NULL;

    if (read_wish(c, &wish, &err) == 0)
        found = history_find(&c->serve->history, &wish, &err);
    if (found)
        call_json(c, 200, found);
    else
        call_error(c, &err);
}

void runs_cancel(struct call *c)
{
    struct history_wish wish;
    struct vial_error err = { 0 };

    if (read_wish(c, &wish, &err) == 0 &&
        history_cancel(&c->serve->history, &wish, &err) == 0)
        call_done(c);
    else
        call_error(c, &err);
}
