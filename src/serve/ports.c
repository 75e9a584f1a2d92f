/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/ports.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "base/two_way.h"
#include "base/unit.h"
#include "serve/hold.h"
#include "serve/route.h"
#include "web/forward.h"
#include "web/raw.h"

#define SESSIONS "/v1/sessions/"
#define PORTS    "/ports/"
#define TOKEN    "X-Vial-Port-Token"
#define IN_QUERY "vial_token"

/* "/v1/sessions/ID/ports/PORT/REST" */
struct port_path {
    char id[72];
    char number[8];
    unsigned port;
    size_t len; /* of all before REST, which begins with '/' */
};

static bool copy(char *out, size_t size, const char *text, size_t len)
{
    if (len == 0 || len >= size)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static bool read_port(const char *text, unsigned *out)
{
    int64_t port;

    if (unit_parse_count(text, &port) < 0 || port < 1 || port > UINT16_MAX)
        return false;
    *out = (unsigned)port;
    return true;
}

/* By the target as it came: nothing in it is decoded here, so that nobody reads it in
 * another way. */
static bool read_path(const struct web_request *req, struct port_path *out)
{
    const char *target = web_target(req);
    const char *at = target;
    size_t len;

    *out = (struct port_path){ 0 };
    if (!str_starts(at, SESSIONS))
        return false;
    at += strlen(SESSIONS);
    len =
        strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    if (!copy(out->id, sizeof(out->id), at, len) || !str_starts(at + len, PORTS))
        return false;
    at += len + strlen(PORTS);
    len = strspn(at, "0123456789");
    if (!copy(out->number, sizeof(out->number), at, len) || at[len] != '/')
        return false;
    out->len = (size_t)(at + len - target);
    return true;
}

bool port_concerns(const struct web_request *req)
{
    struct port_path p;

    return read_path(req, &p);
}

/* Two hashes, one around the other, so that nothing can be added to what was said. */
static void make_token(const struct serve *s, const char *id, unsigned port,
                       char out[65])
{
    struct sha256 hash;
    char said[128];
    char inner[65];
    int len = snprintf(said, sizeof(said), "%s:%u", id, port);

    sha256_init(&hash);
    sha256_add(&hash, s->port_key, sizeof(s->port_key));
    sha256_add(&hash, said, (size_t)len);
    sha256_text(&hash, inner);
    sha256_init(&hash);
    sha256_add(&hash, s->port_key, sizeof(s->port_key));
    sha256_add(&hash, inner, 64);
    sha256_text(&hash, out);
}

/* The token that REQ brings, or NULL. */
static const char *given_token(const struct web_request *req)
{
    const char *header = web_header(req, TOKEN);

    if (header)
        return web_header_repeated(req, TOKEN) ? "" : header;
    return web_query(req, IN_QUERY);
}

bool port_has_token(const struct web_request *req)
{
    return port_concerns(req) && given_token(req);
}

static bool is_right(const struct serve *s, const struct port_path *p,
                     const char *given)
{
    unsigned char differ = 0;
    unsigned port = 0;
    char right[65];

    if (strlen(given) != 64 || !read_port(p->number, &port))
        return false;
    make_token(s, p->id, port, right);
    for (size_t i = 0; i < 64; i++)
        differ |= (unsigned char)(right[i] ^ given[i]);
    return differ == 0;
}

struct caller *port_caller(struct serve *s, const struct web_request *req)
{
    const char *given = given_token(req);
    struct port_path p;
    char owner[96];

    if (!given || !read_path(req, &p) || !is_right(s, &p, given) ||
        !registry_owner(s->registry, p.id, owner, sizeof(owner)))
        return NULL;
    return gate_known(&s->gate, owner);
}

/* By the port's own token, or as every call of a session's owner. */
static int admit(struct call *c, bool *by_token, struct vial_error *err)
{
    *by_token = given_token(c->web) != NULL;
    if (!*by_token)
        return route_admit(c, SCOPE_SESSION, web_method(c->web),
                           "/v1/sessions/{}/ports/{}/", err);
    c->caller = port_caller(c->serve, c->web);
    if (!c->caller)
        return fail(err, VIAL_E_AUTH, "the port's token is not right");
    (void)snprintf(c->who.name, sizeof(c->who.name), "%s", c->caller->name);
    return 0;
}

static void used(void *context)
{
    inside_touch(context);
}

/* The target without its first part, and without a token. */
static void write_target(struct str *out, const char *rest)
{
    size_t path = strcspn(rest, "?");
    const char *at = rest + path;
    char mark = '?';

    str_add(out, rest, path);
    while (*at) {
        size_t len = strcspn(at + 1, "&");

        if (!str_starts(at + 1, IN_QUERY "=")) {
            str_putc(out, mark);
            str_add(out, at + 1, len);
            mark = '&';
        }
        at += 1 + len;
    }
}

/* What a browser would let a session's script do to all of our origin. */
static int check_worker(const struct call *c, struct vial_error *err)
{
    if (!web_header(c->web, "Service-Worker"))
        return 0;
    return fail(err, VIAL_E_HOST, "a session's port can have no service worker here");
}

static int connect_to(struct call *c, struct hold *h, unsigned port, int *fd,
                      struct vial_error *err)
{
    return hold_session(c, h, err) < 0
               ? -1
               : vial_session_connect(h->session->session, port, fd, err);
}

static int reach(struct call *c, struct port_path *p, bool by_token,
                 struct vial_error *err)
{
    static const char *const ours[] = { "Authorization", TOKEN, NULL };
    const char *target = web_target(c->web);
    auto_hold struct hold h = { 0 };
    auto_fd int fd = -1;
    auto_str struct str rest = { 0 };
    auto_str struct str prefix = { 0 };
    char host[32];
    struct web_forward how = { .used = used, .host = host };

    c->params[0] = strdup(p->id);
    if (!c->params[0])
        return fail_memory(err);
    if (!read_port(p->number, &p->port))
        return fail(err, VIAL_E_VALUE, "port %s is not from 1 to 65535", p->number);
    if (check_worker(c, err) < 0 || connect_to(c, &h, p->port, &fd, err) < 0)
        return -1;
    (void)snprintf(host, sizeof(host), "localhost:%u", p->port);
    write_target(&rest, target + p->len);
    str_add(&prefix, target, p->len);
    if (!str_ok(&rest) || !str_ok(&prefix))
        return fail_memory(err);
    how.fd = fd;
    how.target = rest.data;
    how.prefix = prefix.data;
    how.kept = by_token ? ours + 1 : ours;
    how.context = h.session->session;
    return web_forward(c->web, &how, &c->status, err);
}

bool port_answer(struct call *c)
{
    struct vial_error err = { 0 };
    struct port_path p;
    bool by_token = false;

    if (!read_path(c->web, &p))
        return false;
    if (admit(c, &by_token, &err) < 0 || reach(c, &p, by_token, &err) < 0)
        call_error(c, &err);
    return true;
}

static bool wants_tunnel(const struct call *c)
{
    const char *upgrade = web_header(c->web, "Upgrade");

    return upgrade && strcasecmp(upgrade, "tcp") == 0;
}

/* Bytes as they are, for who wants no HTTP. */
static int tunnel(struct call *c, unsigned port, struct vial_error *err)
{
    auto_hold struct hold h = { 0 };
    auto_fd int fd = -1;
    struct two_way both = { .used = used };
    struct web_raw *raw;

    if (connect_to(c, &h, port, &fd, err) < 0)
        return -1;
    c->status = 101;
    raw = web_raw_open(c->web, "tcp");
    if (!raw)
        return 0; /* the client has gone */
    both.context = h.session->session;
    both.ends[0] = web_raw_fd(raw);
    both.ends[1] = fd;
    both.stop_fd = web_raw_ending(raw);
    both.first = web_raw_first(raw, &both.first_len);
    two_way_run(&both);
    web_raw_close(raw);
    return 0;
}

void ports_get(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    unsigned port = 0;
    char token[65];
    char path[128];

    if (!read_port(c->params[1], &port)) {
        (void)fail(&err, VIAL_E_VALUE, "port '%.16s' is not from 1 to 65535",
                   c->params[1]);
        call_error(c, &err);
    } else if (wants_tunnel(c)) {
        if (tunnel(c, port, &err) < 0)
            call_error(c, &err);
    } else if (hold_session(c, &h, &err) < 0) {
        call_error(c, &err);
    } else {
        make_token(c->serve, h.session->id, port, token);
        (void)snprintf(path, sizeof(path), SESSIONS "%s" PORTS "%u/", h.session->id,
                       port);
        call_json(c, 200,
                  json_pack("{s:i, s:s, s:s}", "port", (int)port, "path", path, "token",
                            token));
    }
}
