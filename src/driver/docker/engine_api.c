/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/engine_api.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"

#define CALL_MS 30000

int api_advise(const struct api *api, struct vial_error *err)
{
    auto_free char *dockerd = path_find_program("dockerd", PATH_SEARCH);
    auto_free char *podman = path_find_program("podman", PATH_SEARCH);

    if (!err)
        return -1;
    if (api->remote)
        return -1; /* whoever connected has said what there is to say */
    if (fail_is(err, VIAL_E_ENGINE_MISSING) && (dockerd || podman))
        (void)fail_as(err, VIAL_E_ENGINE_DOWN);
    if (fail_is(err, VIAL_E_ENGINE_MISSING))
        return fail_remedy(err, "install one ('apt install docker.io'), point "
                                "DOCKER_HOST at its socket, or use '--driver native'");
    if (fail_is(err, VIAL_E_ENGINE_DOWN))
        return fail_remedy(err, "start it ('systemctl start docker'), or use "
                                "'--driver native'");
    if (fail_is(err, VIAL_E_ENGINE_ACCESS))
        return fail_remedy(err,
                           "add your user to the group of '%s' ('usermod -aG "
                           "docker USER', then log in again), or use '--driver "
                           "native'",
                           api->socket);
    return -1;
}

void api_cause(const char *body, size_t len, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };
    const char *text = NULL;

    if (body && json_parse(body, len, "answer", &answer, NULL) == 0)
        text = json_string_value(json_object_get(answer, "message"));
    if (!text)
        return;
    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        (void)fail_cause(err, "%s", safe.data);
}

static int no_such_image(const struct api_call *call, struct vial_error *err)
{
    (void)fail(err, VIAL_E_IMAGE, "%s: there is no image '%s' here", call->about,
               call->object);
    return fail_remedy(err, "run 'vial image pull %s'", call->object);
}

/* The engine's words have the port: "Bind for 127.0.0.1:80 failed: port is …". */
static int port_taken(const struct api_call *call, const char *text,
                      struct vial_error *err)
{
    const char *at = strstr(text, "Bind for ");
    size_t len = at ? strcspn(at + 9, " \"\\") : 0;

    if (len > 0 && len < 64)
        (void)fail(err, VIAL_E_ENGINE_PORT, "%s: port %.*s is in use already",
                   call->about, (int)len, at + 9);
    else
        (void)fail(err, VIAL_E_ENGINE_PORT, "%s: a port is in use already",
                   call->about);
    return fail_remedy(err, "publish another one, or port 0 for any that is free");
}

/* Podman. */
static int no_inodes(const struct api_call *call, struct vial_error *err)
{
    (void)fail(err, VIAL_E_LIMITS, "%s: the engine cannot limit the number of files",
               call->about);
    return fail_remedy(err, "do without that limit: '--inodes 100000000'");
}

static int no_runtime(const struct api_call *call, struct vial_error *err)
{
    (void)fail(err, VIAL_E_ENGINE_RUNTIME, "%s: the engine has no such runtime",
               call->about);
    return fail_remedy(err, "name one that 'docker info' lists under Runtimes, or add "
                            "it to /etc/docker/daemon.json");
}

static int not_trusted(const struct api_call *call, const char *body, size_t len,
                       struct vial_error *err)
{
    (void)fail(err, VIAL_E_ENGINE_TLS, "%s: the engine refuses our certificate",
               call->about);
    if (err)
        api_cause(body, len, err);
    return fail_remedy(err, "have cert.pem signed by the authority that the engine "
                            "trusts");
}

int api_refused(const struct api_call *call, int status, const char *body, size_t len,
                struct vial_error *err)
{
    const char *text = body ? body : "";

    if (status == 495) /* vial-tls says so */
        return not_trusted(call, body, len, err);
    if (status == 404 && (strstr(text, "o such image") || strstr(text, "not known")))
        return no_such_image(call, err);
    if (status == 409 && strstr(text, "already in use"))
        (void)fail(err, VIAL_E_NAME_TAKEN, "%s: the name '%s' is taken", call->about,
                   call->object ? call->object : "");
    else if (strstr(text, "no space left"))
        (void)fail(err, VIAL_E_ENGINE_SPACE, "%s: the engine has no space left",
                   call->about);
    else if (strstr(text, "address already in use") || strstr(text, "port is already"))
        (void)port_taken(call, text, err);
    else if (strstr(text, "nknown runtime") || strstr(text, "runtime not found") ||
             strstr(text, "invalid runtime name"))
        (void)no_runtime(call, err);
    else if (status == 404 && strstr(text, "network"))
        (void)fail(err, VIAL_E_ENGINE_NETWORK, "%s: there is no such network",
                   call->about);
    else if (strstr(text, "bind source path") || strstr(text, "mount config"))
        (void)fail(err, VIAL_E_MOUNT, "%s: a mount cannot be made", call->about);
    else if (strstr(text, "nr_inodes"))
        (void)no_inodes(call, err);
    else if (strstr(text, "invalid reference format"))
        (void)fail(err, VIAL_E_IMAGE, "%s: '%s' is not the name of an image",
                   call->about, call->object ? call->object : "");
    else
        (void)fail(err, VIAL_E_ENGINE_API, "%s: the engine refuses with status %d",
                   call->about, status);
    if (err && fail_is(err, VIAL_E_ENGINE_SPACE))
        (void)fail_remedy(err, "run 'vial image prune', or free space in the engine's "
                               "data directory");
    if (err)
        api_cause(body, len, err);
    return -1;
}

static int check_version(const struct http_answer *a, struct vial_error *err)
{
    if (a->version_major == 0 || a->version_major > 1 || a->version_minor >= API_MINOR)
        return 0;
    (void)fail(err, VIAL_E_ENGINE_API, "the engine speaks API %u.%u; 1.%d is needed",
               a->version_major, a->version_minor, API_MINOR);
    return fail_remedy(err, "update it: Docker 20.10, Podman 4 or later");
}

static int check_answer(const struct api_call *call, const struct http_answer *a,
                        struct vial_error *err)
{
    if (a->status >= 400 || (a->status >= 300 && a->status != 304))
        return api_refused(call, a->status, a->body.data, a->body.len, err);
    return check_version(a, err);
}

static struct http_request request_of(const struct api *api,
                                      const struct api_call *call, const char *body)
{
    int64_t usual_ms = api->timeout_ms ? api->timeout_ms : CALL_MS;

    return (struct http_request){ .method = call->method,
                                  .target = call->target,
                                  .body = body,
                                  .archive = call->archive,
                                  .timeout_ms =
                                      call->timeout_ms ? call->timeout_ms : usual_ms,
                                  .cancel_fd = api->cancel_fd ? *api->cancel_fd : -1 };
}

/* Asking again does no harm: nobody has listened, or the connection broke before an
 * answer came to a question. The engine may be coming up, or going down for a
 * moment. */
static bool is_transient(const struct http_request *r, const struct vial_error *why)
{
    bool question = strcmp(r->method, "GET") == 0 || strcmp(r->method, "DELETE") == 0 ||
                    strcmp(r->method, "HEAD") == 0;

    if (!fail_is(why, VIAL_E_ENGINE_DOWN))
        return false;
    return why->sys == ECONNREFUSED || (question && why->sys == 0);
}

/* It says itself that the trouble will pass: it has not begun. */
static bool is_busy(const struct http_answer *answer)
{
    return answer->status == 429 || answer->status == 503;
}

static int call_patiently(const struct api *api, const struct http_request *r,
                          struct http_answer *answer, struct vial_error *err)
{
    struct vial_error why = { 0 };
    int64_t wait_ms = api->retry_ms;

    int rc = -1;

    for (unsigned i = 0;; i++) {
        rc = http_call(&api->transport, r, answer, &why);
        if (i >= api->retries || !(rc < 0 ? is_transient(r, &why) : is_busy(answer)))
            break;
        http_answer_done(answer);
        *answer = (struct http_answer){ 0 };
        (void)poll(NULL, 0, (int)wait_ms);
        wait_ms *= 2;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int api_do(const struct api *api, const struct api_call *call, json_t **out,
           struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    auto_free char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct http_request request = request_of(api, call, body);

    if (call->body && !body)
        return fail_memory(err);
    if (call_patiently(api, &request, &answer, err) < 0) {
        (void)api_advise(api, err);
        return fail_in(err, "%s", call->about);
    }
    if (check_answer(call, &answer, err) < 0)
        return -1;
    if (!out)
        return 0;
    if (answer.body.len == 0) {
        *out = json_null();
        return 0;
    }
    if (json_parse(answer.body.data, answer.body.len, "the engine's answer", out, err) <
        0)
        return fail_as(err, VIAL_E_ENGINE_API);
    return 0;
}

int api_attach(const struct api *api, const struct api_call *call, int *fd,
               struct str *early, struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    auto_free char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct http_request request = request_of(api, call, body);

    if (http_upgrade(&api->transport, &request, &answer, fd, err) < 0) {
        (void)api_advise(api, err);
        return fail_in(err, "%s", call->about);
    }
    if (*fd < 0)
        return api_refused(call, answer.status, answer.body.data, answer.body.len, err);
    str_add(early, answer.body.data ? answer.body.data : "", answer.body.len);
    return str_ok(early) ? 0 : fail_memory(err);
}
