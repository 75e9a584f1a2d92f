/* SPDX-License-Identifier: Apache-2.0 */

/* How a registry asks who we are: Basic, or Bearer with a place where tokens are had.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "images/fetch/image_transfer.h"

#define TOKEN_MAX ((int64_t)1 << 20)

/* The value of NAME="…" in a challenge; malloc'ed, or NULL. */
static char *parameter(const char *challenge, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = challenge; (at = strcasestr(at, name)); at += len) {
        const char *end;

        if ((at != challenge && !strchr(" ,", at[-1])) || at[len] != '=' ||
            at[len + 1] != '"')
            continue;
        end = strchr(at + len + 2, '"');
        return end ? strndup(at + len + 2, (size_t)(end - at - (long)len - 2)) : NULL;
    }
    return NULL;
}

static int set_header(struct endpoint *e, const char *kind, const char *value,
                      struct vial_error *err)
{
    char *line = NULL;

    if (strpbrk(value, "\r\n") ||
        asprintf(&line, "Authorization: %s %s", kind, value) < 0)
        return fail(err, VIAL_E_PULL, "the registry's token is not one");
    free(e->authorization);
    e->authorization = line;
    return 0;
}

static void basic(const struct credentials *who, struct str *out)
{
    auto_str struct str plain = { 0 };

    str_printf(&plain, "%s:%s", who->user, who->password);
    if (str_ok(&plain))
        text_base64(out, plain.data, plain.len);
}

static int answer_basic(struct endpoint *e, struct vial_error *err)
{
    auto_str struct str value = { 0 };

    if (!e->who.user) /* the refusal is told as it came */
        return -1;
    basic(&e->who, &value);
    return str_ok(&value) ? set_header(e, "Basic", value.data, err) : fail_memory(err);
}

/* The name without its port; *LEN of it. */
static const char *host_of(const char *text, size_t *len)
{
    const char *at = strstr(text, "://");

    at = at ? at + 3 : text;
    *len = strcspn(at, "/:?#");
    return at;
}

/* Whether the place of tokens is the registry's own, or its neighbour: the same name,
 * the registry's parent, or a name with that parent. Others get no credentials. */
static bool is_akin(const char *realm, const char *registry)
{
    size_t there = 0;
    size_t here = 0;
    const char *a = host_of(realm, &there);
    const char *b = host_of(registry, &here);
    const char *dot = memchr(b, '.', here);
    size_t parent = dot ? here - (size_t)(dot + 1 - b) : 0;

    if (memchr(a, '@', there))
        return false;
    if (there == here && strncasecmp(a, b, here) == 0)
        return true;
    if (!dot || !memchr(dot + 1, '.', parent)) /* a parent of one word is everybody's */
        return false;
    if (strspn(b, "0123456789.") >= here)
        return false;
    return there >= parent && strncasecmp(a + there - parent, dot + 1, parent) == 0 &&
           (there == parent || a[there - parent - 1] == '.');
}

static void add_escaped(struct str *out, const char *key, const char *value)
{
    char *text = value ? curl_easy_escape(NULL, value, 0) : NULL;

    if (text)
        str_printf(out, "%s=%s&", key, text);
    curl_free(text);
}

static int read_token(struct endpoint *e, const struct str *body,
                      struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    const char *token;

    if (json_parse(body->data ? body->data : "", body->len, "the registry's token",
                   &answer, err) < 0)
        return fail_as(err, VIAL_E_PULL);
    token = json_string_value(json_object_get(answer, "token"));
    if (!token)
        token = json_string_value(json_object_get(answer, "access_token"));
    return token ? set_header(e, "Bearer", token, err)
                 : fail(err, VIAL_E_PULL, "the registry's token is not one");
}

/* The token's own request shows who we are by a header that is made for it alone. */
static int ask(struct transfer *t, struct endpoint *e, bool known,
               struct vial_error *err)
{
    auto_str struct str value = { 0 };
    auto_free char *line = NULL;

    t->what = "a token";
    t->max = TOKEN_MAX;
    t->anonymous = true;
    if (known && e->who.user) {
        basic(&e->who, &value);
        if (!str_ok(&value) ||
            asprintf(&line, "Authorization: Basic %s", value.data) < 0)
            return fail_memory(err);
    }
    t->secret = line;
    return transfer_get(t, NULL, err) < 0 ? -1 : read_token(e, &t->body, err);
}

static int answer_bearer(struct transfer *from, const char *challenge,
                         struct vial_error *err)
{
    struct endpoint *e = from->to;
    auto_free char *realm = parameter(challenge, "realm");
    auto_free char *service = parameter(challenge, "service");
    auto_free char *scope = NULL;
    auto_str struct str form = { 0 };
    auto_str struct str url = { 0 };
    bool known = realm && is_akin(realm, e->host);
    struct transfer t = { .fd = -1 };
    int rc;

    if (!realm || asprintf(&scope, "repository:%s:pull", e->repository) < 0)
        return fail(err, VIAL_E_PULL, "the registry does not say where tokens are had");
    add_escaped(&form, "service", service);
    add_escaped(&form, "scope", scope);
    if (known && e->who.identity) {
        add_escaped(&form, "refresh_token", e->who.identity);
        str_puts(&form, "grant_type=refresh_token&client_id=vial");
        str_puts(&url, realm);
    } else
        str_printf(&url, "%s%c%s", realm, strchr(realm, '?') ? '&' : '?',
                   form.data ? form.data : "");
    if (!str_ok(&form) || !str_ok(&url))
        return fail_memory(err);
    rc = transfer_init(&t, e, from->job, url.data, err);
    if (rc == 0 && known && e->who.identity)
        t.post = strdup(form.data);
    rc = rc < 0 ? rc : ask(&t, e, known, err);
    transfer_done(&t);
    return rc;
}

int challenge_answer(struct transfer *t, struct vial_error *err)
{
    const char *text = t->challenge.data ? t->challenge.data : "";
    const char *bearer = strcasestr(text, "bearer ");

    str_putc(&t->challenge, '\0');
    if (bearer)
        return answer_bearer(t, bearer, err);
    return strcasestr(text, "basic") ? answer_basic(t->to, err) : -1;
}
