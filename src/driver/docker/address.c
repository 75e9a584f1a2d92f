/* SPDX-License-Identifier: Apache-2.0 */

/* Where the engine is, as DOCKER_HOST and its neighbours say it. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/unit.h"
#include "driver/docker/engine_api.h"
#include "driver/helper.h"

#define RETRIES  2
#define RETRY_MS 50

static int fail_address(const char *address, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "engine address '%s' %s", address, why);
    return fail_remedy(err, "set DOCKER_HOST to unix:///path/of/the/socket or "
                            "tcp://HOST:PORT, or unset it");
}

static int use_socket(struct api *out, const char *address, const char *path,
                      struct vial_error *err)
{
    if (path[0] != '/' || strlen(path) >= sizeof(out->socket))
        return fail_address(address, "does not name a socket by a short absolute path",
                            err);
    (void)snprintf(out->socket, sizeof(out->socket), "%s", path);
    out->transport.connect = http_unix_connect;
    out->transport.context = out->socket;
    return 0;
}

static int find_certs(struct http_peer *p, const struct api_source *from,
                      struct vial_error *err)
{
    int n = from->certs && from->certs[0]
                ? snprintf(p->certs, sizeof(p->certs), "%s", from->certs)
                : snprintf(p->certs, sizeof(p->certs), "%s/.docker",
                           from->home ? from->home : "");

    if (n > 0 && (size_t)n < sizeof(p->certs) && p->certs[0] == '/')
        return 0;
    (void)fail(err, VIAL_E_ENGINE_TLS, "there is no directory of certificates");
    return fail_remedy(err, "name it by DOCKER_CERT_PATH, absolute");
}

static int find_helper(struct http_peer *p, struct vial_error *err)
{
    if (helper_find("vial-tls", p->helper))
        return 0;
    (void)fail(err, VIAL_E_ENGINE_TLS, "there is no program 'vial-tls'");
    return fail_remedy(err, "install vial whole: it lies beside the guest");
}

static int use_peer(struct api *out, const struct api_source *from,
                    struct vial_error *err)
{
    struct http_peer *p = &out->peer;

    p->tls = from->tls_verify && from->tls_verify[0];
    out->remote = true;
    out->transport.connect = http_dial_connect;
    out->transport.context = p;
    if (http_peer_parse(p, from->address + strlen("tcp://"), p->tls ? "2376" : "2375") <
        0)
        return fail_address(from->address, "is not tcp://HOST:PORT", err);
    if (p->tls)
        return find_certs(p, from, err) < 0 ? -1 : find_helper(p, err);
    if (http_is_loopback(p->host)) {
        out->transport.connect = http_tcp_connect;
        return 0;
    }
    if (from->plain && from->plain[0])
        return find_helper(p, err);
    (void)fail(err, VIAL_E_ENGINE_TLS,
               "engine address '%s' leads to another host, without encryption",
               from->address);
    return fail_remedy(err, "set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH; or, on a "
                            "network where everybody may be root on that host, "
                            "VIAL_ENGINE_PLAIN=1");
}

int api_init(struct api *out, const struct api_source *from, struct vial_error *err)
{
    const char *address = from->address;

    *out = (struct api){ .retries = RETRIES, .retry_ms = RETRY_MS };
    if (!address || !address[0])
        return use_socket(out, API_SOCKET_DEFAULT, API_SOCKET_DEFAULT, err);
    if (str_starts(address, "unix://"))
        return use_socket(out, address, address + strlen("unix://"), err);
    if (str_starts(address, "tcp://"))
        return use_peer(out, from, err);
    return fail_address(address, "is neither a local socket nor tcp://", err);
}

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

int api_find(struct api *out, struct vial_error *err)
{
    const struct api_source from = { .address = variable("DOCKER_HOST"),
                                     .tls_verify = variable("DOCKER_TLS_VERIFY"),
                                     .certs = variable("DOCKER_CERT_PATH"),
                                     .home = variable("HOME"),
                                     .plain = variable("VIAL_ENGINE_PLAIN") };
    const char *seconds = variable("DOCKER_CLIENT_TIMEOUT");

    if (api_init(out, &from, err) < 0)
        return -1;
    if (!seconds || !seconds[0])
        return 0;
    if (unit_parse_ms(seconds, &out->timeout_ms) == 0 && out->timeout_ms > 0)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "DOCKER_CLIENT_TIMEOUT '%s' is not a time", seconds);
    return fail_remedy(err, "set it to a number of seconds, or unset it");
}
