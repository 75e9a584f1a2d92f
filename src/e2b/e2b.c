/* SPDX-License-Identifier: Apache-2.0 */

/* Which face of the wire a request means, and whether who asks may use it. */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/unit.h"
#include "e2b/builds.h"
#include "e2b/control.h"
#include "e2b/lease.h"
#include "e2b/volume_seen.h"
#include "http/connect_envelope.h"

#define PREFIX      "/e2b" /* may stand before every path */
#define PORT_PYTHON 49999u /* the interpreter's */

#define CONTENT "/volumecontent/"

#define HALF            "E2b-Sandbox-Id and E2b-Sandbox-Port belong together"
#define NO_KEY          "the key is missing or not known; send 'X-API-Key: KEY'"
#define NO_BOX          "The sandbox was not found"
#define NO_TOKEN        "the access token is missing or wrong"
#define NO_VOLUME       "the volume's token is missing, or not known any more"
#define NO_UPLOAD       "the address is not known any more"
#define WRONG_SIGNATURE "invalid signature"

enum kind {
    FACE_NONE,    /* not of this wire */
    FACE_CONTROL, /* the control API */
    FACE_BOX,     /* traffic of a sandbox */
    FACE_SIGNED,  /* a file URL that does not say of which */
    FACE_UPLOAD,  /* files of a template that is built */
    FACE_CONTENT, /* what is in a volume */
    FACE_HALF,    /* one of two headers alone */
};

struct face {
    enum kind kind;
    const char *path;
    char id[64];
    unsigned port;
    bool own_host; /* told by the name that the client calls it by */
};

/* PATH without the prefix. */
static const char *behind_prefix(const char *path)
{
    size_t len = strlen(PREFIX);

    return strncmp(path, PREFIX, len) == 0 && path[len] == '/' ? path + len : path;
}

static bool take_port(const char *text, size_t len, unsigned *out)
{
    char number[8];
    int64_t port;

    if (len == 0 || len >= sizeof(number))
        return false;
    memcpy(number, text, len);
    number[len] = '\0';
    if (unit_parse_count(number, &port) < 0 || port < 1 || port > 65535)
        return false;
    *out = (unsigned)port;
    return true;
}

/* "49983-iabc.example.com" */
static bool by_name(const struct web_request *req, struct face *out)
{
    const char *host = web_header(req, "Host");
    size_t digits = host ? strspn(host, "0123456789") : 0;
    const char *id = host ? host + digits + 1 : NULL;
    size_t len;

    if (digits == 0 || host[digits] != '-' || !take_port(host, digits, &out->port))
        return false;
    len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (len == 0 || len >= sizeof(out->id) || id[len] != '.')
        return false;
    memcpy(out->id, id, len);
    out->id[len] = '\0';
    out->kind = FACE_BOX;
    out->own_host = true;
    return true;
}

static bool by_headers(const struct web_request *req, struct face *out)
{
    const char *id = web_header(req, "E2b-Sandbox-Id");
    const char *port = web_header(req, "E2b-Sandbox-Port");

    if (!id && !port)
        return false;
    out->kind = FACE_HALF;
    if (id && port && take_port(port, strlen(port), &out->port)) {
        out->kind = FACE_BOX;
        (void)snprintf(out->id, sizeof(out->id), "%s", id);
    }
    return true;
}

/* Both ours and the SDK's, whatever is done of them. */
static bool is_control(const char *path)
{
    static const char *const roots[] = {
        "/sandboxes", "/v2/sandboxes", "/templates", "/v2/templates", "/v3/templates",
        "/snapshots", "/volumes",      "/secrets",   "/teams",
    };

    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        size_t len = strlen(roots[i]);

        if (strncmp(path, roots[i], len) == 0 && (path[len] == '/' || !path[len]))
            return true;
    }
    return false;
}

static struct face face_of(const struct web_request *req)
{
    struct face f = { .path = behind_prefix(web_path(req)) };

    if (by_headers(req, &f) || by_name(req, &f))
        return f;
    if (strcmp(f.path, "/files") == 0 && web_query(req, "signature"))
        f.kind = FACE_SIGNED;
    else if (strcmp(f.path, "/uploads") == 0 && web_query(req, "token"))
        f.kind = FACE_UPLOAD;
    else if (strncmp(f.path, CONTENT, strlen(CONTENT)) == 0)
        f.kind = FACE_CONTENT;
    else if (is_control(f.path))
        f.kind = FACE_CONTROL;
    return f;
}

bool e2b_concerns(const struct web_request *req)
{
    return face_of(req).kind != FACE_NONE;
}

static bool has_header(const struct web_request *req, const char *name,
                       const char *secret)
{
    const char *given = web_header(req, name);

    return given && !web_header_repeated(req, name) && box_same(secret, given);
}

/* 0, or the status and *WHY of the refusal. */
static unsigned judge_envd(const struct box *box, const struct web_request *req,
                           const struct face *f, const char **why)
{
    if (strcmp(f->path, "/health") == 0 || !box->token[0] ||
        has_header(req, "X-Access-Token", box->token))
        return 0;
    *why = NO_TOKEN;
    if (strcmp(f->path, "/files") == 0 && !web_header(req, "X-Access-Token"))
        *why = signature_wrong(box, req);
    return *why ? 401 : 0;
}

/* What SDKs send no access token with: no code runs by it. */
static bool is_open_to_ids(const char *path)
{
    size_t len = strlen("/contexts");

    return strcmp(path, "/health") == 0 ||
           (strncmp(path, "/contexts", len) == 0 && (path[len] == '/' || !path[len]));
}

/* Ids are in the names of sites, which strangers may know. */
static unsigned judge_python(const struct box *box, const struct web_request *req,
                             const struct face *f, const char **why)
{
    if (is_open_to_ids(f->path) || !box->token[0] ||
        has_header(req, "X-Access-Token", box->token))
        return 0;
    *why = NO_TOKEN;
    return 401;
}

static unsigned judge(const struct box *box, const struct web_request *req,
                      const struct face *f, const char **why)
{
    if (f->port == ENVD_PORT)
        return judge_envd(box, req, f, why);
    *why = "the traffic access token is missing or wrong";
    if (box->traffic[0])
        return has_header(req, "E2B-Traffic-Access-Token", box->traffic) ? 0 : 403;
    return f->port == PORT_PYTHON ? judge_python(box, req, f, why) : 0;
}

/* A token of the daemon's, in any form that wrappers send it in. */
static bool owner_of(struct e2b *e2b, const struct web_request *req,
                     struct e2b_owner *out)
{
    const char *key = web_header(req, "X-API-Key");
    const char *bearer = web_header(req, "Authorization");

    if (!key && bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        key = bearer + 7;
    return key && !web_header_repeated(req, "X-API-Key") &&
           e2b->options.owner(e2b->options.context, key, out);
}

static struct web_place stranger(unsigned status, const char *why)
{
    return (struct web_place){
        .lane = WEB_STRANGERS, .status = status, .why = why, .coded = true
    };
}

/* Files may be large, and are taken while they come. */
static bool flows(const struct web_request *req, const struct face *f)
{
    return (f->kind == FACE_SIGNED || f->port == ENVD_PORT) &&
           strcmp(f->path, "/files") == 0 && strcmp(web_method(req), "POST") == 0;
}

static void place_box(struct e2b *e2b, const struct web_request *req,
                      const struct face *f, struct web_place *out)
{
    bool is_signed = f->kind == FACE_SIGNED;
    auto_box struct box *box =
        is_signed ? boxes_signed(e2b, req) : boxes_find(e2b, f->id);
    const char *why = is_signed ? WRONG_SIGNATURE : NO_BOX;
    unsigned status = is_signed ? 401 : 502;

    if (box && is_signed) {
        why = signature_wrong(box, req);
        status = why ? 401 : 0;
    } else if (box) {
        status = judge(box, req, f, &why);
    }
    if (status)
        *out = stranger(status, why);
    else
        *out = (struct web_place){ .caller = box->caller,
                                   .coded = true,
                                   .flows = flows(req, f) };
}

/* Who knows the address is who was told it. */
static void place_upload(struct e2b *e2b, const struct web_request *req,
                         struct web_place *out)
{
    struct caller *caller = builds_caller(e2b, web_query(req, "token"));

    *out = stranger(403, NO_UPLOAD);
    if (caller)
        *out = (struct web_place){ .caller = caller, .coded = true };
}

/* The same: the volume's token was told to its owner alone. */
static void place_content(struct e2b *e2b, const struct web_request *req,
                          struct web_place *out)
{
    struct volume_key key;

    *out = stranger(401, NO_VOLUME);
    if (volume_key_of(e2b, req, &key))
        *out = (struct web_place){ .caller = key.caller, .coded = true };
}

void e2b_place(struct e2b *e2b, const struct web_request *req, struct web_place *out)
{
    const struct face f = face_of(req);
    struct e2b_owner owner;

    *out = f.kind == FACE_HALF ? stranger(400, HALF) : stranger(401, NO_KEY);
    if (f.kind == FACE_BOX || f.kind == FACE_SIGNED)
        place_box(e2b, req, &f, out);
    else if (f.kind == FACE_UPLOAD)
        place_upload(e2b, req, out);
    else if (f.kind == FACE_CONTENT)
        place_content(e2b, req, out);
    else if (f.kind == FACE_CONTROL && owner_of(e2b, req, &owner))
        *out = (struct web_place){ .caller = gate_caller(e2b->options.gate, owner.name,
                                                         &owner.quota),
                                   .coded = true };
}

/* Pages of any origin may speak to a sandbox: what it takes is a token, and never what
 * a browser adds by itself. */
static bool allow_pages(struct ask *a)
{
    static const char *const headers[][2] = {
        { "Access-Control-Allow-Origin", "*" },
        { "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS" },
        { "Access-Control-Expose-Headers", "*" },
        { "Access-Control-Max-Age", "7200" },
    };
    const char *wanted = web_header(a->web, "Access-Control-Request-Headers");

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        (void)web_set_header(a->web, headers[i][0], headers[i][1]);
    if (strcmp(web_method(a->web), "OPTIONS") != 0)
        return false;
    (void)web_set_header(a->web, "Access-Control-Allow-Headers", wanted ? wanted : "*");
    ask_done(a);
    return true;
}

static bool is_ours(unsigned port)
{
    return port == ENVD_PORT || port == PORT_PYTHON;
}

static void serve_port(struct ask *a)
{
    if (a->port == ENVD_PORT)
        envd_handle(a);
    else if (a->port == PORT_PYTHON)
        interpreter_handle(a);
    else
        port_handle(a);
}

/* Whether it can be spoken to: a paused one, if any use wakes it. */
static bool is_awake(struct ask *a)
{
    struct vial_error err = { 0 };

    if (!atomic_load(&a->box->paused_ms))
        return true;
    return a->box->auto_resume && lease_wake(a->box, a->box->lease_s, &err) == 0;
}

static void handle_box(struct ask *a, const struct face *f)
{
    const char *why = NULL;
    unsigned status;

    if (is_ours(f->port) && allow_pages(a))
        return;
    a->box = boxes_find(a->e2b, f->id);
    if (!a->box || (atomic_load(&a->box->paused_ms) && !a->box->auto_resume)) {
        ask_proxy(a, 502, f->id, NO_BOX);
        return;
    }
    a->port = f->port;
    a->own_host = f->own_host;
    a->target = f->own_host ? web_target(a->web) : behind_prefix(web_target(a->web));
    a->caller = a->box->caller;
    (void)snprintf(a->turn->sandbox, sizeof(a->turn->sandbox), "%s", a->box->id);
    status = judge(a->box, a->web, f, &why);
    if (status == 401) {
        ask_refuse(a, status, "%s", why);
    } else if (status) {
        ask_proxy(a, status, a->box->id, why);
    } else if (!is_awake(a)) {
        ask_proxy(a, 502, f->id, NO_BOX);
    } else {
        (void)snprintf(a->turn->who, sizeof(a->turn->who), "%s", a->box->owner);
        serve_port(a);
    }
}

static void handle_signed(struct ask *a)
{
    const char *why = WRONG_SIGNATURE;

    if (allow_pages(a))
        return;
    a->box = boxes_signed(a->e2b, a->web);
    if (a->box)
        why = signature_wrong(a->box, a->web);
    if (why) {
        ask_refuse(a, 401, "%s", why);
        return;
    }
    if (!is_awake(a)) {
        ask_proxy(a, 502, a->box->id, NO_BOX);
        return;
    }
    a->port = ENVD_PORT;
    a->caller = a->box->caller;
    (void)snprintf(a->turn->who, sizeof(a->turn->who), "%s", a->box->owner);
    (void)snprintf(a->turn->sandbox, sizeof(a->turn->sandbox), "%s", a->box->id);
    envd_handle(a);
}

static void handle_control(struct ask *a)
{
    if (!owner_of(a->e2b, a->web, &a->owner)) {
        ask_refuse(a, 401, NO_KEY);
        return;
    }
    (void)snprintf(a->turn->who, sizeof(a->turn->who), "%s", a->owner.name);
    a->caller = gate_caller(a->e2b->options.gate, a->owner.name, &a->owner.quota);
    if (!a->owner.sessions)
        ask_refuse(a, 403, "'%s' may not hold sessions", a->owner.name);
    else if (!a->caller)
        ask_refuse(a, 500, "out of memory");
    else
        control_handle(a);
}

static void handle_content(struct ask *a)
{
    struct volume_key key;

    if (!volume_key_of(a->e2b, a->web, &key)) {
        ask_refuse(a, 401, NO_VOLUME);
        return;
    }
    (void)snprintf(a->turn->who, sizeof(a->turn->who), "%s", key.owner.name);
    a->owner = key.owner;
    a->caller = key.caller;
    volume_key_count(a->e2b, &key, true);
    volume_content(a, &key);
    volume_key_count(a->e2b, &key, false);
}

void e2b_handle(struct e2b *e2b, struct web_request *req, struct e2b_turn *turn)
{
    const struct face f = face_of(req);
    struct ask a = { .e2b = e2b, .web = req, .turn = turn, .path = f.path };

    if (f.kind == FACE_HALF)
        ask_refuse(&a, 400, HALF);
    else if (f.kind == FACE_BOX)
        handle_box(&a, &f);
    else if (f.kind == FACE_SIGNED)
        handle_signed(&a);
    else if (f.kind == FACE_UPLOAD)
        control_upload(&a);
    else if (f.kind == FACE_CONTENT)
        handle_content(&a);
    else
        handle_control(&a);
    box_release(a.box);
}
