/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/api.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "base/unit.h"

#define CALL_MS        30000
#define ATTEMPTS       3
#define RETRY_FIRST_MS 20

static int fail_address(const char *address, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "engine address '%s' %s", address, why);
    return fail_remedy(err,
                       "set DOCKER_HOST to unix:///path/of/the/socket, or unset it");
}

int api_init(struct api *out, const char *address, struct vial_error *err)
{
    const char *path = API_SOCKET_DEFAULT;

    *out = (struct api){ 0 };
    if (address && str_starts(address, "unix://"))
        path = address + strlen("unix://");
    else if (address && str_starts(address, "tcp://"))
        return fail_address(address, "is remote, which is not supported yet", err);
    else if (address)
        return fail_address(address, "is not a local socket", err);
    if (path[0] != '/' || strlen(path) >= sizeof(out->socket))
        return fail_address(address, "does not name a socket by a short absolute path",
                            err);
    (void)snprintf(out->socket, sizeof(out->socket), "%s", path);
    out->transport.connect = http_unix_connect;
    out->transport.context = out->socket;
    return 0;
}

int api_find(struct api *out, struct vial_error *err)
{
    const char *address = getenv("DOCKER_HOST"); /* NOLINT(concurrency-mt-unsafe) */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *seconds = getenv("DOCKER_CLIENT_TIMEOUT");

    if (api_init(out, address && address[0] ? address : NULL, err) < 0)
        return -1;
    if (!seconds || !seconds[0])
        return 0;
    if (unit_parse_ms(seconds, &out->timeout_ms) == 0 && out->timeout_ms > 0)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "DOCKER_CLIENT_TIMEOUT '%s' is not a time", seconds);
    return fail_remedy(err, "set it to a number of seconds, or unset it");
}

static bool is(const struct vial_error *err, enum fail_code code)
{
    return str_eq(err->code, fail_code_text(code));
}

int api_advise(const struct api *api, struct vial_error *err)
{
    auto_free char *dockerd = path_find_program("dockerd", PATH_SEARCH);
    auto_free char *podman = path_find_program("podman", PATH_SEARCH);

    if (!err)
        return -1;
    if (is(err, VIAL_E_ENGINE_MISSING) && (dockerd || podman))
        (void)fail_as(err, VIAL_E_ENGINE_DOWN);
    if (is(err, VIAL_E_ENGINE_MISSING))
        return fail_remedy(err, "install one ('apt install docker.io'), point "
                                "DOCKER_HOST at its socket, or use '--driver native'");
    if (is(err, VIAL_E_ENGINE_DOWN))
        return fail_remedy(err, "start it ('systemctl start docker'), or use "
                                "'--driver native'");
    if (is(err, VIAL_E_ENGINE_ACCESS))
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

int api_refused(const struct api_call *call, int status, const char *body, size_t len,
                struct vial_error *err)
{
    const char *text = body ? body : "";

    if (status == 404 && (strstr(text, "o such image") || strstr(text, "not known")))
        return no_such_image(call, err);
    if (status == 409 && strstr(text, "already in use"))
        (void)fail(err, VIAL_E_NAME_TAKEN, "%s: the name '%s' is taken", call->about,
                   call->object ? call->object : "");
    else if (strstr(text, "no space left"))
        (void)fail(err, VIAL_E_ENGINE_SPACE, "%s: the engine has no space left",
                   call->about);
    else if (strstr(text, "address already in use") || strstr(text, "port is already"))
        (void)fail(err, VIAL_E_ENGINE_API, "%s: a port is in use already", call->about);
    else if (strstr(text, "bind source path") || strstr(text, "mount config"))
        (void)fail(err, VIAL_E_MOUNT, "%s: a mount cannot be made", call->about);
    else if (strstr(text, "invalid reference format"))
        (void)fail(err, VIAL_E_IMAGE, "%s: '%s' is not the name of an image",
                   call->about, call->object ? call->object : "");
    else
        (void)fail(err, VIAL_E_ENGINE_API, "%s: the engine refuses with status %d",
                   call->about, status);
    if (err && is(err, VIAL_E_ENGINE_SPACE))
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
                                  .timeout_ms =
                                      call->timeout_ms ? call->timeout_ms : usual_ms,
                                  .cancel_fd = -1 };
}

/* The connection was made and broke before an answer came, and asking again does no
 * harm: the engine may be coming up, or going down for a moment. */
static bool is_transient(const struct http_request *r, const struct vial_error *why)
{
    return (strcmp(r->method, "GET") == 0 || strcmp(r->method, "DELETE") == 0) &&
           is(why, VIAL_E_ENGINE_DOWN) && why->sys == 0;
}

static int call_patiently(const struct api *api, const struct http_request *r,
                          struct http_answer *answer, struct vial_error *err)
{
    struct vial_error why = { 0 };
    int wait_ms = RETRY_FIRST_MS;

    for (int i = 0; i < ATTEMPTS; i++) {
        if (http_call(&api->transport, r, answer, &why) == 0)
            return 0;
        if (!is_transient(r, &why))
            break;
        http_answer_done(answer);
        *answer = (struct http_answer){ 0 };
        (void)poll(NULL, 0, wait_ms);
        wait_ms *= 2;
    }
    if (err)
        *err = why;
    return -1;
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
    struct http_request request = request_of(api, call, NULL);

    if (http_upgrade(&api->transport, &request, &answer, fd, err) < 0) {
        (void)api_advise(api, err);
        return fail_in(err, "%s", call->about);
    }
    if (*fd < 0)
        return api_refused(call, answer.status, answer.body.data, answer.body.len, err);
    str_add(early, answer.body.data ? answer.body.data : "", answer.body.len);
    return str_ok(early) ? 0 : fail_memory(err);
}
