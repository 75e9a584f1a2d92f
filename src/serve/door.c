/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/door.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/budget.h"
#include "base/fail.h"
#include "serve/cors.h"
#include "serve/http_call.h"
#include "serve/ports.h"
#include "serve/sessions_at.h"

#define BODIES_BYTES (UINT64_C(512) << 20)

static const enum gate_kind kinds[] = {
    [WEB_CONNECTIONS] = GATE_CONNECTIONS,
    [WEB_REQUESTS] = GATE_REQUESTS,
    [WEB_BODIES] = GATE_BODIES,
};

static bool is_about_health(const char *path)
{
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
}

static void place(void *context, const struct web_request *req, struct web_place *out)
{
    struct serve *s = context;
    struct generation *gen;
    struct identity who;
    struct vial_error err = { 0 };

    if (serve_e2b(s, req)) {
        e2b_place(s->e2b, req, out);
        return;
    }
    if (is_about_health(web_path(req))) {
        *out = (struct web_place){ .lane = WEB_HEALTH,
                                   .status = 413,
                                   .why = "no body is taken here" };
        return;
    }
    if (port_concerns(req) && !sessions_at_concerns(s, req))
        out->caller = port_caller(s, req);
    if (out->caller)
        return;
    gen = serve_use(s);
    out->origin = cors_origin(&gen->auth, req);
    out->caller = sessions_at_caller(s, &gen->auth.usual, req);
    if (!out->caller && auth_check(&gen->auth, req, &who, &err) == 0)
        out->caller = gate_caller(&s->gate, who.name, &who.quota);
    serve_unuse(s, gen);
    if (out->caller)
        return;
    out->lane = WEB_STRANGERS;
    out->status = call_status_of(&err) == 403 ? 403 : 401;
    out->why = "no body is taken before it is known who asks";
}

static void *peer(void *context, uid_t uid)
{
    struct serve *s = context;
    struct generation *gen = serve_use(s);
    struct identity who;
    struct vial_error err;
    struct caller *caller = NULL;

    if (auth_front(&gen->auth, uid)) {
        (void)snprintf(who.name, sizeof(who.name), "front:%u", (unsigned)uid);
        caller = gate_caller(&s->gate, who.name, &gen->auth.usual);
    } else if (auth_peer(&gen->auth, uid, &who, &err) == 0)
        caller = gate_caller(&s->gate, who.name, &who.quota);
    serve_unuse(s, gen);
    return caller;
}

static bool take(void *context, void *caller, enum web_share share, size_t amount)
{
    struct serve *s = context;
    const struct caller *who = caller;

    if (share == WEB_ANSWERS)
        return budget_take(s->budget, BUDGET_MEMORY, who->name, amount);
    return gate_take(&s->gate, caller, kinds[share], amount);
}

static void give(void *context, void *caller, enum web_share share, size_t amount)
{
    struct serve *s = context;
    const struct caller *who = caller;

    if (share == WEB_ANSWERS)
        budget_give(s->budget, BUDGET_MEMORY, who->name, amount);
    else
        gate_give(&s->gate, caller, kinds[share], amount);
}

const struct web_door serve_door = {
    .place = place, .peer = peer, .take = take, .give = give
};

unsigned door_connections(const struct serve_settings *c)
{
    struct rlimit files;
    uint64_t most = (uint64_t)c->connections;

    /* The others are for runs and sessions. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 4 * 3 < most)
        most = files.rlim_cur / 4 * 3;
    return most ? (unsigned)most : 1;
}

void door_set(struct serve *s, const struct serve_settings *c)
{
    uint64_t most = 4 * (uint64_t)c->body; /* packed, and what it unpacks to */

    gate_share(&s->gate, GATE_CONNECTIONS, door_connections(c));
    gate_share(&s->gate, GATE_REQUESTS, DOOR_HANDLERS);
    gate_share(&s->gate, GATE_VOLUMES, DOOR_VOLUMES);
    /* A caller who is alone, with half of it, can always send the largest body. */
    gate_share(&s->gate, GATE_BODIES, most > BODIES_BYTES ? most : BODIES_BYTES);
}
