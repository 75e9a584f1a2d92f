/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/cluster_api.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "base/text.h"
#include "driver/helper.h"
#include "driver/kubernetes/asking.h"
#include "driver/kubernetes/exec_plugin.h"
#include "http/ws_frame.h"

#define CALL_MS     30000
#define RETRIES     4
#define RETRY_MS    250
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define PROTOCOL    "v4.channel.k8s.io"
#define LINE_MAX_   (4u << 20) /* of a watch: one object */

static const char *variable(const char *name)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return text && *text ? text : NULL;
}

/* A file that vial-tls can be given, away from the numbers that it finds there. */
static int put_given(int *out, const char *name, const struct blob *b,
                     struct vial_error *err)
{
    int fd = sys_memfd_sealed(name, b->data ? b->data : "", b->len);

    if (fd < 0)
        return fail_sys_rc(err, fd, "keep a key of the cluster's");
    if (helper_lift(&fd) < 0) {
        auto_fd_(&fd);
        return fail_sys(err, "keep a key of the cluster's");
    }
    *out = fd;
    return 0;
}

static void take_back(struct http_peer *p)
{
    for (int i = 0; i < 3; i++) {
        if (p->given[i] > 0)
            (void)close(p->given[i]);
        p->given[i] = 0;
    }
}

int cluster_api_give(struct cluster_api *api, struct vial_error *err)
{
    const struct cluster *c = &api->cluster;
    int *given = api->peer.given;

    take_back(&api->peer);
    if (!c->tls)
        return 0;
    return put_given(&given[0], "ca", &c->ca, err) < 0 ||
                   put_given(&given[1], "cert", &c->cert, err) < 0 ||
                   put_given(&given[2], "key", &c->key, err) < 0
               ? -1
               : 0;
}

static int set_tls(struct cluster_api *api, struct vial_error *err)
{
    const struct cluster *c = &api->cluster;
    struct http_peer *p = &api->peer;

    if (!helper_find("vial-tls", p->helper)) {
        (void)fail(err, VIAL_E_CLUSTER_TLS, "there is no program 'vial-tls'");
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    if (cluster_api_give(api, err) < 0)
        return -1;
    memcpy(p->certs, c->name, sizeof(c->name));
    p->tls = true;
    api->transport.connect = http_dial_connect;
    return 0;
}

static int set_peer(struct cluster_api *api, struct vial_error *err)
{
    const struct cluster *c = &api->cluster;
    bool wide = strchr(c->host, ':') != NULL;

    memcpy(api->peer.host, c->host, sizeof(c->host));
    memcpy(api->peer.port, c->port, sizeof(c->port));
    (void)snprintf(api->head, sizeof(api->head), "%s%s%s:%s", wide ? "[" : "", c->host,
                   wide ? "]" : "", c->port);
    api->transport.context = &api->peer;
    api->transport.connect = http_tcp_connect;
    return c->tls ? set_tls(api, err) : 0;
}

int cluster_api_open(struct cluster_api *out, struct vial_error *err)
{
    const struct cluster_source from = {
        .kubeconfig = variable("KUBECONFIG"),
        .home = variable("HOME"),
        .context = variable("VIAL_KUBERNETES_CONTEXT"),
        .namespace = variable("VIAL_KUBERNETES_NAMESPACE"),
        .account_dir = ACCOUNT_DIR,
        .host = variable("KUBERNETES_SERVICE_HOST"),
        .port = variable("KUBERNETES_SERVICE_PORT"),
    };

    *out = (struct cluster_api){ .retries = RETRIES, .retry_ms = RETRY_MS };
    if (cluster_read(&out->cluster, &from, err) < 0)
        return -1;
    if (out->cluster.exec.count > 0 && exec_plugin_ask(&out->cluster, err) < 0)
        return -1;
    return set_peer(out, err);
}

void cluster_api_close(struct cluster_api *api)
{
    take_back(&api->peer);
    cluster_done(&api->cluster);
    *api = (struct cluster_api){ 0 };
}

static struct http_request request_of(const struct cluster_api *api,
                                      const struct cluster_call *call,
                                      const char *target, const char *body)
{
    return (struct http_request){
        .method = call->method,
        .target = target,
        .host = api->head,
        .body = body,
        .timeout_ms = call->timeout_ms ? call->timeout_ms : CALL_MS,
        .cancel_fd = api->cancel_fd ? *api->cancel_fd : -1,
    };
}

static int target_of(const struct cluster_api *api, const struct cluster_call *call,
                     struct str *out, struct vial_error *err)
{
    str_printf(out, "%s%s", api->cluster.prefix, call->path);
    return str_ok(out) ? 0 : fail_memory(err);
}

int cluster_do(struct cluster_api *api, const struct cluster_call *call, json_t **out,
               struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    struct way whole = { .take = NULL };
    auto_str struct str target = { 0 };
    auto_free char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct http_request request;

    if (call->body && !body)
        return fail_memory(err);
    if (target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, body);
    if (cluster_ask(api, &request, &whole, &answer, err) < 0)
        return cluster_unreached(api, call, err);
    if (answer.status < 200 || answer.status >= 300)
        return cluster_refused(call, answer.status, answer.body.data, answer.body.len,
                               err);
    if (!out)
        return 0;
    if (json_parse(answer.body.data ? answer.body.data : "", answer.body.len,
                   "the API server's answer", out, err) < 0)
        return fail_as(err, VIAL_E_CLUSTER_API);
    return 0;
}

struct watching {
    cluster_take *take;
    void *context;
    struct str line;
    bool enough;
};

/* An object is a line. */
static int take_lines(void *context, const char *data, size_t len,
                      struct vial_error *err)
{
    struct watching *w = context;

    for (size_t i = 0; i < len; i++) {
        auto_json json_t *object = NULL;

        if (data[i] != '\n') {
            str_putc(&w->line, data[i]);
            continue;
        }
        if (!str_ok(&w->line) ||
            json_parse(w->line.data, w->line.len, "an event", &object, err) < 0)
            return fail_as(err, VIAL_E_CLUSTER_API);
        str_done(&w->line);
        w->line = (struct str){ 0 };
        if (!w->take(w->context, object)) {
            w->enough = true;
            return -1;
        }
    }
    return w->line.len < LINE_MAX_
               ? 0
               : fail(err, VIAL_E_CLUSTER_API, "watch: an event is too long");
}

int cluster_watch(struct cluster_api *api, const struct cluster_call *call,
                  cluster_take *take, void *context, struct vial_error *err)
{
    struct watching w = { .take = take, .context = context };
    struct way lines = { .take = take_lines, .context = &w };
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    struct vial_error why = { 0 };
    struct http_request request;
    int rc;

    if (target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, NULL);
    rc = cluster_ask(api, &request, &lines, &answer, &why);
    str_done(&w.line);
    if (w.enough)
        return 0;
    if (rc == 0 && answer.status >= 300)
        return cluster_refused(call, answer.status, answer.body.data, answer.body.len,
                               err);
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? cluster_unreached(api, call, err) : 0;
}

/* What the other side has to say to show that it speaks WebSocket, with us. */
struct greeting {
    char accept[40];
    bool accepted, agreed;
};

static int read_greeting(void *context, const char *line)
{
    static const char accept[] = "Sec-WebSocket-Accept:";
    static const char protocol[] = "Sec-WebSocket-Protocol:";
    struct greeting *g = context;
    const char *value = strchr(line, ':');

    value = value ? value + 1 + strspn(value + 1, " \t") : "";
    if (strncasecmp(line, accept, strlen(accept)) == 0)
        g->accepted = str_eq(value, g->accept);
    if (strncasecmp(line, protocol, strlen(protocol)) == 0)
        g->agreed = str_eq(value, PROTOCOL);
    return 0;
}

static int prepare(struct greeting *g, struct str *lines, struct vial_error *err)
{
    auto_str struct str key = { 0 };
    auto_str struct str accept = { 0 };
    unsigned char raw[16];
    ssize_t rc = sys_random(raw, sizeof(raw));

    if (rc < 0)
        return fail_sys_rc(err, (int)rc, "make a key");
    text_base64(&key, raw, sizeof(raw));
    if (!str_ok(&key))
        return fail_memory(err);
    ws_accept(&accept, key.data);
    str_printf(lines,
               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n",
               key.data, PROTOCOL);
    if (!str_ok(&accept) || !str_ok(lines))
        return fail_memory(err);
    (void)snprintf(g->accept, sizeof(g->accept), "%s", accept.data);
    return 0;
}

int cluster_attach(struct cluster_api *api, const struct cluster_call *call, int *fd,
                   struct str *early, struct vial_error *err)
{
    struct greeting g = { .accepted = false };
    struct way stream = { .fd = fd, .header = read_greeting, .header_context = &g };
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    auto_str struct str lines = { 0 };
    struct http_request request;

    if (prepare(&g, &lines, err) < 0 || target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, NULL);
    request.upgrade = lines.data;
    if (cluster_ask(api, &request, &stream, &answer, err) < 0)
        return cluster_unreached(api, call, err);
    if (answer.status != 101) {
        auto_fd_(fd);
        *fd = -1;
        return cluster_refused(call, answer.status, answer.body.data, answer.body.len,
                               err);
    }
    if (!g.accepted || !g.agreed) {
        (void)fail(err, VIAL_E_CLUSTER_API,
                   "%s: the API server does not speak " PROTOCOL " over a WebSocket",
                   call->about);
        return fail_remedy(err, "see whether a proxy before it passes WebSockets on");
    }
    str_add(early, answer.body.data ? answer.body.data : "", answer.body.len);
    return early->failed ? fail_memory(err) : 0;
}
