/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/e2b/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/helper.h"
#include "http/connect_envelope.h"

#define USUAL_DOMAIN   "e2b.app"
#define USUAL_TEMPLATE "base"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* Letters, digits and what MORE has. */
static bool has_only(const char *text, const char *more)
{
    for (; *text; text++)
        if (!strchr(letters, *text) && !strchr("0123456789", *text) &&
            !strchr(more, *text))
            return false;
    return true;
}

static int refuse_url(const char *name, const char *url, const char *why,
                      struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "%s '%.200s' %s", name, url, why);
    return fail_remedy(err, "write https://HOST or https://HOST:PORT, or "
                            "http://127.0.0.1:PORT");
}

static int find_helper(struct http_peer *p, const char *authorities,
                       struct vial_error *err)
{
    p->anonymous = true;
    (void)snprintf(p->certs, sizeof(p->certs), "%s", authorities);
    if (helper_find("vial-tls", p->helper))
        return 0;
    (void)fail(err, VIAL_E_REMOTE, "there is no program 'vial-tls'");
    return fail_remedy(err, "install vial whole: it lies beside the guest");
}

/* The key, programs and what they print go there: others could read them. */
static int choose_transport(struct e2b_server *s, const char *name, const char *url,
                            const char *authorities, struct vial_error *err)
{
    s->transport.context = &s->peer;
    s->transport.connect = http_dial_connect;
    if (s->peer.tls)
        return find_helper(&s->peer, authorities, err);
    s->transport.connect = http_tcp_connect;
    return http_is_loopback(s->peer.host)
               ? 0
               : refuse_url(name, url, "leads to another host, without encryption",
                            err);
}

/* NAME is what the user calls URL. */
static int server_init(struct e2b_server *out, const char *name, const char *url,
                       const char *authorities, struct vial_error *err)
{
    bool tls = str_starts(url, "https://");
    const char *host = tls ? url + 8 : url + 7;
    size_t host_len = 0;
    size_t path_len = 0;
    char origin[300];

    *out = (struct e2b_server){ .peer.tls = tls };
    if (!tls && !str_starts(url, "http://"))
        return refuse_url(name, url, "begins with neither https:// nor http://", err);
    host_len = strcspn(host, "/");
    path_len = strlen(host + host_len);
    while (path_len > 0 && host[host_len + path_len - 1] == '/')
        path_len--;
    if (host_len >= sizeof(origin) || path_len >= sizeof(out->path))
        return refuse_url(name, url, "is too long", err);
    (void)snprintf(origin, sizeof(origin), "%.*s", (int)host_len, host);
    (void)snprintf(out->path, sizeof(out->path), "%.*s", (int)path_len,
                   host + host_len);
    if (http_peer_parse(&out->peer, origin, tls ? "443" : "80") < 0 ||
        !has_only(out->path, "/-._~"))
        return refuse_url(name, url, "is not HOST:PORT", err);
    (void)snprintf(out->host, sizeof(out->host), "%s", origin);
    return choose_transport(out, name, url, authorities, err);
}

/* It becomes part of a header. */
static int take_key(struct e2b_endpoint *out, const char *key, struct vial_error *err)
{
    bool fits = key && key[0] && strlen(key) <= E2B_TOKEN && has_only(key, "-._~+/=");

    if (fits) {
        (void)snprintf(out->key, sizeof(out->key), "%s", key);
        return 0;
    }
    (void)fail(err, VIAL_E_REMOTE,
               key && key[0] ? "E2B_API_KEY is not a key" : "E2B_API_KEY is not set");
    return fail_remedy(err, "set it to a key of the service; a daemon's is made by "
                            "'vial serve --new-token NAME --e2b'");
}

static int take_name(char *out, size_t size, const char *name, const char *text,
                     const char *more, struct vial_error *err)
{
    if (strlen(text) < size && has_only(text, more)) {
        (void)snprintf(out, size, "%s", text);
        return 0;
    }
    (void)fail(err, VIAL_E_VALUE, "%s '%.100s' is not a name", name, text);
    return fail_remedy(err, "correct the variable, or unset it");
}

static const char * or (const char *text, const char *usual)
{
    return text && text[0] ? text : usual;
}

/* Sandboxes of a service of your own are not at the usual one's. */
static int take_domain(struct e2b_endpoint *out, const struct e2b_source *from,
                       struct vial_error *err)
{
    const char *usual = or (from->api_url, "")[0] ? "" : USUAL_DOMAIN;

    return take_name(out->domain, sizeof(out->domain), "E2B_DOMAIN",
                     or (from->domain, usual), "-.:", err);
}

int e2b_endpoint_init(struct e2b_endpoint *out, const struct e2b_source *from,
                      struct vial_error *err)
{
    char url[300];

    *out = (struct e2b_endpoint){ 0 };
    if (take_key(out, from->key, err) < 0 || take_domain(out, from, err) < 0 ||
        take_name(out->template_name, sizeof(out->template_name), "E2B_TEMPLATE",
                  or (from->template_name, USUAL_TEMPLATE), "-._:/", err) < 0)
        return -1;
    if (strlen(or (from->authorities, "")) >= sizeof(out->authorities) ||
        strlen(or (from->box_url, "")) >= sizeof(out->box_url))
        return fail(err, VIAL_E_VALUE, "SSL_CERT_FILE or E2B_SANDBOX_URL is too long");
    (void)snprintf(out->authorities, sizeof(out->authorities), "%s",
                   or (from->authorities, ""));
    (void)snprintf(out->box_url, sizeof(out->box_url), "%s", or (from->box_url, ""));
    (void)snprintf(url, sizeof(url), "https://api.%s", out->domain);
    return server_init(&out->api,
                       or (from->api_url, "")[0] ? "E2B_API_URL" : "E2B_DOMAIN",
                       or (from->api_url, url), out->authorities, err);
}

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

bool e2b_endpoint_is_set(void)
{
    const char *key = variable("E2B_API_KEY");

    return key && key[0];
}

int e2b_endpoint_find(struct e2b_endpoint *out, struct vial_error *err)
{
    const struct e2b_source from = { .key = variable("E2B_API_KEY"),
                                     .domain = variable("E2B_DOMAIN"),
                                     .api_url = variable("E2B_API_URL"),
                                     .box_url = variable("E2B_SANDBOX_URL"),
                                     .template_name = variable("E2B_TEMPLATE"),
                                     .authorities = variable("SSL_CERT_FILE") };

    return e2b_endpoint_init(out, &from, err);
}

static int say_nowhere(const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_REMOTE, "%s", why);
    return fail_remedy(err, "set E2B_SANDBOX_URL to where the service's sandboxes are "
                            "reached, or E2B_DOMAIN");
}

int e2b_endpoint_box(const struct e2b_endpoint *e, const char *id, const char *domain,
                     struct e2b_server *out, struct vial_error *err)
{
    char url[E2B_ID + E2B_DOMAIN + 32];
    struct vial_error why = { 0 };

    if (e->box_url[0])
        return server_init(out, "E2B_SANDBOX_URL", e->box_url, e->authorities, err);
    if (!domain[0] && !e->domain[0])
        return say_nowhere("E2B_SANDBOX_URL is not set, and the service says no domain",
                           err);
    (void)snprintf(url, sizeof(url), "https://%u-%s.%s", ENVD_PORT, id,
                   domain[0] ? domain : e->domain);
    if (server_init(out, "the sandbox's address", url, e->authorities, &why) == 0)
        return 0;
    if (fail_is(&why, VIAL_E_VALUE))
        return say_nowhere(why.message, err);
    if (err)
        *err = why;
    return -1;
}
