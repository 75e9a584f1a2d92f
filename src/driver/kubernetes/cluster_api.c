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

static int set_tls(struct cluster_api *api, struct vial_error *err)
{
    const struct cluster *c = &api->cluster;
    struct http_peer *p = &api->peer;

    if (!helper_find("vial-tls", p->helper)) {
        (void)fail(err, VIAL_E_CLUSTER_TLS, "there is no program 'vial-tls'");
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    if (put_given(&p->given[0], "ca", &c->ca, err) < 0 ||
        put_given(&p->given[1], "cert", &c->cert, err) < 0 ||
        put_given(&p->given[2], "key", &c->key, err) < 0)
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
    for (int i = 0; i < 3; i++)
        if (api->peer.given[i] > 0)
            (void)close(api->peer.given[i]);
    cluster_done(&api->cluster);
    *api = (struct cluster_api){ 0 };
}

/* The words of whoever connected are about engines. */
static int say_unreached(const struct cluster_api *api, const struct cluster_call *call,
                         struct vial_error *err)
{
    if (!err || fail_is(err, VIAL_E_CANCELLED))
        return -1;
    if (fail_is(err, VIAL_E_ENGINE_TLS)) {
        (void)fail_as(err, VIAL_E_CLUSTER_TLS);
        (void)fail_remedy(err, "check 'certificate-authority', and the client's "
                               "certificate and key, in the kubeconfig");
    } else if (str_starts(err->code, "VIAL-ENGINE-") || fail_is(err, VIAL_E_SYSTEM)) {
        bool odd = fail_is(err, VIAL_E_ENGINE_API);

        (void)fail_as(err, odd ? VIAL_E_CLUSTER_API : VIAL_E_CLUSTER_DOWN);
        (void)fail_remedy(err,
                          "see whether the API server at %.200s answers: 'kubectl "
                          "get --raw /readyz'",
                          api->head);
    }
    return fail_in(err, "%s", call->about);
}

void cluster_add_cause(struct vial_error *err, const char *text)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!text || !*text || !err)
        return;
    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        (void)fail_cause(err, "%s", safe.data);
}

static int forbidden(const struct cluster_call *call, const char *text,
                     struct vial_error *err)
{
    if (strstr(text, "exceeded quota") || strstr(text, "failed quota")) {
        (void)fail(err, VIAL_E_CLUSTER_QUOTA, "%s: the namespace's quota is used up",
                   call->about);
        return fail_remedy(err, "wait until pods have ended, ask for less, or have the "
                                "ResourceQuota raised");
    }
    if (strstr(text, "RuntimeClass") || strstr(text, "runtimeclass")) {
        (void)fail(err, VIAL_E_ENGINE_RUNTIME,
                   "%s: the cluster has no such RuntimeClass", call->about);
        return fail_remedy(err, "name one that 'kubectl get runtimeclasses' lists");
    }
    (void)fail(err, VIAL_E_CLUSTER_ACCESS, "%s: the cluster does not allow it",
               call->about);
    return fail_remedy(err, "give the user the Role of deploy/driver/role.yaml");
}

/* Why, in a word and in a sentence of the API's own; NULL: it does not say. */
static json_t *read_status(const char *body, size_t len, const char **reason,
                           const char **message)
{
    json_t *answer = NULL;

    if (body && json_parse(body, len, "answer", &answer, NULL) < 0)
        answer = NULL;
    *reason = json_string_value(json_object_get(answer, "reason"));
    *message = json_string_value(json_object_get(answer, "message"));
    return answer;
}

/* Others changed what our object counts in, a quota for one: it was not made. */
static bool in_conflict(const char *method, int status, const char *reason)
{
    return status == 409 && str_eq(method, "POST") && str_eq(reason, "Conflict");
}

int cluster_refused(const struct cluster_call *call, int status, const char *body,
                    size_t len, struct vial_error *err)
{
    const char *reason, *text;
    auto_json json_t *answer = read_status(body, len, &reason, &text);

    if (status == 401 || status == 495) { /* vial-tls says the latter */
        (void)fail(err, VIAL_E_CLUSTER_ACCESS, "%s: the cluster does not know who asks",
                   call->about);
        (void)fail_remedy(err, "renew the credentials of the kubeconfig's user");
    } else if (status == 403) {
        (void)forbidden(call, text ? text : "", err);
    } else if (status == 404) {
        (void)fail(err, VIAL_E_CLUSTER_GONE, "%s: there is none", call->about);
    } else if (status == 409 && !in_conflict(call->method, status, reason)) {
        (void)fail(err, VIAL_E_NAME_TAKEN, "%s: there is one already", call->about);
    } else {
        (void)fail(err, VIAL_E_CLUSTER_API, "%s: the API server refuses with status %d",
                   call->about, status);
        (void)fail_remedy(err, "see its own words, and try again later");
    }
    cluster_add_cause(err, text);
    return -1;
}

bool cluster_is_missing(const struct vial_error *why)
{
    return fail_is(why, VIAL_E_CLUSTER_GONE);
}

bool cluster_is_taken(const struct vial_error *why)
{
    return fail_is(why, VIAL_E_NAME_TAKEN);
}

static struct http_request request_of(const struct cluster_api *api,
                                      const struct cluster_call *call,
                                      const char *target, const char *body)
{
    return (struct http_request){
        .method = call->method,
        .target = target,
        .host = api->head,
        .token = api->cluster.token,
        .body = body,
        .timeout_ms = call->timeout_ms ? call->timeout_ms : CALL_MS,
        .cancel_fd = api->cancel_fd ? *api->cancel_fd : -1,
    };
}

/* It has not begun, and says itself that the trouble will pass; or nobody was there, or
 * hung up before an answer to a question. A pod is created under a name of its own, so
 * that a second try makes no second one. */
static bool may_pass(const char *method, int rc, const struct http_answer *a,
                     const struct vial_error *why)
{
    const char *reason, *text;
    auto_json json_t *answer = NULL;

    if (rc < 0)
        return fail_is(why, VIAL_E_ENGINE_DOWN);
    answer = read_status(a->body.data, a->body.len, &reason, &text);
    return a->status == 429 || a->status == 503 || a->status == 504 ||
           in_conflict(method, a->status, reason);
}

static int call_patiently(const struct cluster_api *api, const struct http_request *r,
                          struct http_answer *answer, struct vial_error *err)
{
    struct pollfd cancel = { .fd = r->cancel_fd, .events = POLLIN };
    struct vial_error why = { 0 };
    int64_t wait_ms = api->retry_ms;
    int rc;

    for (unsigned i = 0;; i++) {
        rc = http_call(&api->transport, r, answer, &why);
        if (i >= api->retries || !may_pass(r->method, rc, answer, &why))
            break;
        http_answer_done(answer);
        *answer = (struct http_answer){ 0 };
        if (poll(&cancel, 1, (int)wait_ms) > 0)
            return fail(err, VIAL_E_CANCELLED, "the caller cancelled the run");
        wait_ms *= 2;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int target_of(const struct cluster_api *api, const struct cluster_call *call,
                     struct str *out, struct vial_error *err)
{
    str_printf(out, "%s%s", api->cluster.prefix, call->path);
    return str_ok(out) ? 0 : fail_memory(err);
}

int cluster_do(const struct cluster_api *api, const struct cluster_call *call,
               json_t **out, struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    auto_free char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct http_request request;

    if (call->body && !body)
        return fail_memory(err);
    if (target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, body);
    if (call_patiently(api, &request, &answer, err) < 0)
        return say_unreached(api, call, err);
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

int cluster_watch(const struct cluster_api *api, const struct cluster_call *call,
                  cluster_take *take, void *context, struct vial_error *err)
{
    struct watching w = { .take = take, .context = context };
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    struct vial_error why = { 0 };
    struct http_request request;
    int rc;

    if (target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, NULL);
    rc = http_stream(&api->transport, &request, take_lines, &w, &answer, &why);
    str_done(&w.line);
    if (w.enough)
        return 0;
    if (rc == 0 && answer.status >= 300)
        return cluster_refused(call, answer.status, answer.body.data, answer.body.len,
                               err);
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? say_unreached(api, call, err) : 0;
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

int cluster_attach(const struct cluster_api *api, const struct cluster_call *call,
                   int *fd, struct str *early, struct vial_error *err)
{
    struct greeting g = { .accepted = false };
    auto_answer struct http_answer answer = { 0 };
    auto_str struct str target = { 0 };
    auto_str struct str lines = { 0 };
    struct http_request request;

    if (prepare(&g, &lines, err) < 0 || target_of(api, call, &target, err) < 0)
        return -1;
    request = request_of(api, call, target.data, NULL);
    request.upgrade = lines.data;
    request.header = read_greeting;
    request.header_context = &g;
    if (http_upgrade(&api->transport, &request, &answer, fd, err) < 0)
        return say_unreached(api, call, err);
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
