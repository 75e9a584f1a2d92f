/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/auth.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/unit.h"
#include "model/members.h"
#include "serve/face.h"

#define TOKEN      "token:"
#define TOKENS_MAX 10000u
#define TOKEN_MIN  16u           /* bytes of a token: shorter ones can be guessed */
#define SECOND     "X-Auth-User" /* Judge0's, for an administrator's token */

static const struct {
    const char *name;
    unsigned scope;
} scopes[] = {
#define ROW(name, scope) { name, scope },
    SERVE_SCOPES(ROW)
#undef ROW
};

unsigned auth_scope(const char *name)
{
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        if (strcmp(scopes[i].name, name) == 0)
            return scopes[i].scope;
    return 0;
}

const char *auth_scope_name(unsigned scope)
{
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        if (scopes[i].scope == scope)
            return scopes[i].name;
    return "";
}

static int read_scopes(json_t *list, unsigned *out, struct vial_error *err)
{
    *out = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        unsigned scope = name ? auth_scope(name) : 0;

        if (!scope)
            return fail(err, VIAL_E_VALUE,
                        "scope '%s' is none of read, run, session, image, admin, all",
                        name ? name : "");
        *out |= scope;
    }
    return 0;
}

static bool is_hash(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool is_name(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len < sizeof(((struct token *)0)->name) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789-_.") == len;
}

static int read_token(json_t *entry, const struct quota *usual, struct token *out,
                      struct vial_error *err)
{
    const char *name = NULL;
    const char *hash = NULL;
    json_t *allowed = NULL;
    struct quota quota = *usual;
    const struct member members[] = {
        { "name", MEMBER_TEXT, &name },
        { "sha256", MEMBER_TEXT, &hash },
        { "scopes", MEMBER_LIST, &allowed },
        { "concurrency", MEMBER_COUNT, &quota.concurrency },
        { "runs_per_minute", MEMBER_COUNT, &quota.runs_per_minute },
        { "cpu_per_minute", MEMBER_MS, &quota.cpu_per_minute_ms },
        { "network_open", MEMBER_COUNT, &quota.network.open },
        { "network_rate", MEMBER_COUNT, &quota.network.per_minute },
        { "network_in_per_hour", MEMBER_SIZE, &quota.network.in_per_hour },
        { "network_out_per_hour", MEMBER_SIZE, &quota.network.out_per_hour },
        { 0 },
    };

    if (members_read(entry, members, NULL, err) < 0)
        return -1;
    if (!name || !is_name(name))
        return fail(err, VIAL_E_VALUE, "a token has no name of letters and digits");
    if (!hash || !is_hash(hash)) {
        (void)fail(err, VIAL_E_VALUE, "token '%s' has no sha256 of 64 hex digits",
                   name);
        return fail_remedy(err, "'vial serve --new-token NAME' makes an entry");
    }
    *out = (struct token){ .quota = quota };
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    (void)snprintf(out->sha256, sizeof(out->sha256), "%s", hash);
    return read_scopes(allowed, &out->scopes, err);
}

static int load_tokens(struct auth *a, const char *path, struct vial_error *err)
{
    auto_json json_t *list = NULL;
    struct stat st;

    if (stat(path, &st) < 0) {
        (void)fail_sys(err, "read the tokens in '%s'", path);
        return fail_remedy(err, "make one: 'vial serve --new-token NAME >> FILE'");
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        (void)fail(err, VIAL_E_POLICY, "'%s' can be written by others", path);
        return fail_remedy(err, "chmod 600 %s", path);
    }
    if (yaml_read(path, &list, err) < 0)
        return -1;
    if (!json_is_array(list) || json_array_size(list) > TOKENS_MAX)
        return fail(err, VIAL_E_VALUE, "'%s' is not a list of tokens", path);
    a->tokens = calloc(json_array_size(list) + 1, sizeof(*a->tokens));
    if (!a->tokens)
        return fail_memory(err);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_token(json_array_get(list, i), &a->usual, &a->tokens[a->token_count++],
                       err) < 0)
            return fail_in(err, "%s", path);
    return 0;
}

static int find_user(const char *text, uid_t *out, struct vial_error *err)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buf[4096];
    int64_t number;

    if (unit_parse_count(text, &number) == 0 && number < UINT32_MAX) {
        *out = (uid_t)number;
        return 0;
    }
    if (getpwnam_r(text, &entry, buf, sizeof(buf), &found) != 0 || !found)
        return fail(err, VIAL_E_VALUE, "there is no user '%s'", text);
    *out = found->pw_uid;
    return 0;
}

static int load_uids(const struct strv *list, const char *setting, uid_t **out,
                     size_t *count, struct vial_error *err)
{
    *out = calloc(list->count + 1, sizeof(**out));
    if (!*out)
        return fail_memory(err);
    for (size_t i = 0; i < list->count; i++)
        if (find_user(list->items[i], &(*out)[(*count)++], err) < 0)
            return fail_in(err, "serve: %s", setting);
    return 0;
}

/* As browsers say them: a scheme, a host, a port if it is not the usual one. "null" is
 * said by pages that anybody can make, and "*" would mean all. */
static int check_origins(const struct strv *origins, struct vial_error *err)
{
    for (size_t i = 0; i < origins->count; i++) {
        const char *text = origins->items[i];
        const char *rest = strstr(text, "://");

        if (rest && rest > text && rest[3] && !strpbrk(rest + 3, "?#@*, /") &&
            !memchr(text, '*', (size_t)(rest - text)))
            continue;
        (void)fail(err, VIAL_E_VALUE, "serve: origins: '%.80s' is no origin", text);
        return fail_remedy(err, "name each as a browser says it, without a path: "
                                "https://app.example.com or http://localhost:3000");
    }
    return 0;
}

int auth_load(struct auth *a, const struct serve_settings *s, uid_t own,
              struct vial_error *err)
{
    *a = (struct auth){
        .own = own,
        .settings = s,
        .usual = { s->caller_concurrency,
                   s->caller_runs_per_minute,
                   s->caller_cpu_per_minute,
                   { s->caller_network_open, s->caller_network_rate,
                     s->caller_network_in_per_hour, s->caller_network_out_per_hour } },
    };
    strv_copy(&a->hosts, &s->hosts);
    strv_copy(&a->origins, &s->origins);
    if (!strv_ok(&a->hosts) || !strv_ok(&a->origins))
        return fail_memory(err);
    if (check_origins(&s->origins, err) < 0 ||
        load_uids(&s->uids, "uids", &a->uids, &a->uid_count, err) < 0 ||
        load_uids(&s->sessions_for, "sessions_for", &a->fronts, &a->front_count, err) <
            0)
        return -1;
    return s->tokens ? load_tokens(a, s->tokens, err) : 0;
}

void auth_done(struct auth *a)
{
    free(a->tokens);
    free(a->uids);
    free(a->fronts);
    strv_done(&a->hosts);
    strv_done(&a->origins);
    *a = (struct auth){ 0 };
}

/* "name:80" or "[::1]:80" -> the name's length. */
static size_t host_len(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');

    if (!end)
        return strlen(text);
    return (size_t)(end - text) + (text[0] == '[' ? 1 : 0);
}

/* Nothing, or ":80". */
static bool is_port(const char *text)
{
    return *text == '\0' ||
           (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

static bool is_host(const char *host, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(host, name, len) == 0 &&
           is_port(host + len);
}

/* A web page that a browser was led to under a name of its own (DNS rebinding) says
 * that name here. */
static int check_host(const struct auth *a, const struct web_request *req,
                      struct vial_error *err)
{
    static const char *const ours[] = { "localhost", "127.0.0.1", "[::1]" };
    const char *host = web_header(req, "Host");
    size_t len = host ? host_len(host) : 0;

    if (!host)
        return fail(err, VIAL_E_HTTP, "the header Host is missing");
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (is_host(host, len, ours[i]))
            return 0;
    for (size_t i = 0; i < a->hosts.count; i++)
        if (is_host(host, len, a->hosts.items[i]))
            return 0;
    (void)fail(err, VIAL_E_HOST, "Host is none of this server's names");
    return fail_remedy(err, "add it to 'hosts' below 'serve' in the settings");
}

bool auth_origin_is_listed(const struct auth *a, const struct web_request *req)
{
    const char *origin = web_header(req, "Origin");

    if (!origin || web_header_repeated(req, "Origin"))
        return false;
    for (size_t i = 0; i < a->origins.count; i++)
        if (strcasecmp(a->origins.items[i], origin) == 0)
            return true;
    return false;
}

/* The server's own page has an origin made of the Host it was loaded from. */
static int check_origin(const struct auth *a, const struct web_request *req,
                        struct vial_error *err)
{
    const char *origin = web_header(req, "Origin");
    const char *host = web_header(req, "Host");
    const char *rest = origin ? strstr(origin, "://") : NULL;

    if (!origin || (rest && host && strcasecmp(rest + 3, host) == 0) ||
        auth_origin_is_listed(a, req))
        return 0;
    (void)fail(err, VIAL_E_HOST, "Origin is not allowed");
    return fail_remedy(err, "add it to 'origins' below 'serve' in the settings");
}

int auth_peer(const struct auth *a, uid_t uid, struct identity *out,
              struct vial_error *err)
{
    bool own = uid == a->own || uid == 0;
    bool known = own;

    for (size_t i = 0; i < a->uid_count; i++)
        known = known || a->uids[i] == uid;
    if (!known) {
        (void)fail(err, VIAL_E_AUTH, "user %u may not use this daemon", (unsigned)uid);
        return fail_remedy(err, "add it to 'uids' below 'serve' in the settings");
    }
    *out = (struct identity){
        .scopes = own ? SCOPE_ALL : SCOPE_READ | SCOPE_RUN | SCOPE_SESSION,
        .quota = a->usual,
        .local = own,
    };
    (void)snprintf(out->name, sizeof(out->name), "uid:%u", (unsigned)uid);
    return 0;
}

/* Compares all of both, whatever they are: how long it takes says nothing. */
static bool same_hash(const char *a, const char *b)
{
    unsigned char differ = 0;

    for (size_t i = 0; i < 64; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

static const struct token *find_token(const struct auth *a, const char *secret)
{
    const struct token *found = NULL;
    struct sha256 hash;
    char text[65];

    sha256_init(&hash);
    sha256_add(&hash, secret, strlen(secret));
    sha256_text(&hash, text);
    for (size_t i = 0; i < a->token_count; i++)
        if (same_hash(a->tokens[i].sha256, text))
            found = &a->tokens[i];
    return found;
}

/* "any:TOKEN" in base64: what a client makes of http://any:TOKEN@host/. */
static void take_basic(const char *text, struct blob *out)
{
    struct blob pair = { 0 };
    const char *colon = NULL;

    if (text_unbase64(text, strlen(text), &pair) == 0 && pair.data)
        colon = memchr(pair.data, ':', pair.len);
    if (colon)
        (void)blob_set(out, colon + 1, strlen(colon + 1));
    blob_done(&pair);
}

/* A header, unless it is there twice. */
static const char *once(const struct web_request *req, const char *name)
{
    return web_header_repeated(req, name) ? NULL : web_header(req, name);
}

/* Clients of other services have their own ways to say a token; the services' own
 * paths take these, and no others do. */
static void take_foreign(const struct web_request *req, struct blob *out)
{
    const char *header = once(req, "Authorization");
    const char *const given[] = { once(req, "X-Auth-Token"),
                                  once(req, "X-RapidAPI-Key"),
                                  web_query(req, "X-Auth-Token"), once(req, SECOND) };

    /* A browser adds a password that it remembers by itself: pages say a token. */
    if (header && strncasecmp(header, "Basic ", 6) == 0 && !web_header(req, "Origin"))
        take_basic(header + 6, out);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]) && !out->data; i++)
        if (given[i])
            (void)blob_set(out, given[i], strlen(given[i]));
}

static const struct token *find_foreign(const struct auth *a,
                                        const struct web_request *req)
{
    const struct token *token = NULL;
    struct blob said = { 0 };

    take_foreign(req, &said);
    if (said.data && strlen(said.data) >= TOKEN_MIN)
        token = find_token(a, said.data);
    blob_done(&said);
    return token;
}

/* Clients of Judge0 say the token of an administrator besides their own: it adds that
 * right, and nothing else of it holds. */
static unsigned second_scopes(const struct auth *a, const struct web_request *req)
{
    const char *given = once(req, SECOND);
    const struct token *token = NULL;

    if (given && strlen(given) >= TOKEN_MIN)
        token = find_token(a, given);
    return token ? token->scopes & SCOPE_ADMIN : 0;
}

static void identify(const struct token *token, struct identity *out)
{
    *out = (struct identity){ .scopes = token->scopes, .quota = token->quota };
    (void)snprintf(out->name, sizeof(out->name), TOKEN "%s", token->name);
}

bool auth_key(const struct auth *a, const char *key, struct identity *out)
{
    const struct token *token = strlen(key) >= TOKEN_MIN ? find_token(a, key) : NULL;

    if (token)
        identify(token, out);
    return token != NULL;
}

static int by_token(const struct auth *a, const struct web_request *req,
                    struct identity *out, struct vial_error *err)
{
    const char *header = web_header(req, "Authorization");
    const struct token *token = NULL;
    bool foreign = face_has(a->settings, web_path(req));

    if (header && !web_header_repeated(req, "Authorization") &&
        strncasecmp(header, "Bearer ", 7) == 0 && strlen(header + 7) >= TOKEN_MIN)
        token = find_token(a, header + 7);
    else if (foreign)
        token = find_foreign(a, req);
    if (!token) {
        (void)fail(err, VIAL_E_AUTH,
                   header ? "the token is not known" : "a token is needed");
        return fail_remedy(err, "%s",
                           header ? "see whether 'serve.tokens' names it; 'vial serve "
                                    "--new-token NAME' makes one"
                                  : "send 'Authorization: Bearer TOKEN'");
    }
    identify(token, out);
    if (foreign)
        out->scopes |= second_scopes(a, req);
    return 0;
}

bool auth_front(const struct auth *a, uid_t uid)
{
    for (size_t i = 0; i < a->front_count; i++)
        if (a->fronts[i] == uid)
            return true;
    return false;
}

/* "token:NAME" or "uid:NUMBER", as our own settings know them. */
static int by_name(const struct auth *a, const char *name, struct identity *out,
                   struct vial_error *err)
{
    int64_t number;

    for (size_t i = 0; str_starts(name, TOKEN) && i < a->token_count; i++)
        if (str_eq(a->tokens[i].name, name + strlen(TOKEN))) {
            identify(&a->tokens[i], out);
            return 0;
        }
    if (str_starts(name, "uid:") &&
        unit_parse_count(name + strlen("uid:"), &number) == 0 && number < UINT32_MAX)
        return auth_peer(a, (uid_t)number, out, err);
    (void)fail(err, VIAL_E_AUTH, "'%.80s' is not known to the daemon of the sessions",
               name);
    return fail_remedy(err, "have it read its settings again: SIGHUP");
}

static int by_front(const struct auth *a, uid_t uid, const struct web_request *req,
                    struct identity *out, struct vial_error *err)
{
    const char *name = web_header(req, AUTH_FOR);

    if (auth_front(a, uid) && name && !web_header_repeated(req, AUTH_FOR))
        return by_name(a, name, out, err);
    (void)fail(err, VIAL_E_AUTH, "user %u may not pass on requests", (unsigned)uid);
    return fail_remedy(err, "add it to 'sessions_for' below 'serve' in the settings of "
                            "the daemon of the sessions");
}

int auth_check(const struct auth *a, const struct web_request *req,
               struct identity *out, struct vial_error *err)
{
    pid_t pid;
    uid_t uid;

    if (web_peer(req, &pid, &uid)) {
        if (check_origin(a, req, err) < 0)
            return -1;
        return web_passed(req) ? by_front(a, uid, req, out, err)
                               : auth_peer(a, uid, out, err);
    }
    if (check_host(a, req, err) < 0 || check_origin(a, req, err) < 0)
        return -1;
    return by_token(a, req, out, err);
}

const char *auth_token_name(const struct identity *who)
{
    return str_starts(who->name, TOKEN) ? who->name + strlen(TOKEN) : "";
}
