/* SPDX-License-Identifier: Apache-2.0 */

/* Where a server is, as people write it. */

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "http/http.h"

static bool is_port(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= 5 && strspn(text, "0123456789") == len;
}

static bool is_host(const char *text)
{
    return text[0] && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                                   "XYZ0123456789.:_-") == strlen(text);
}

int http_peer_parse(struct http_peer *out, const char *text, const char *usual_port)
{
    size_t len = strcspn(text, "/");
    size_t bracket = text[0] == '[' ? 1 : 0;
    const char *host_end = text + strcspn(text, bracket ? "]" : ":/");
    const char *port = host_end + bracket;
    size_t host_len = (size_t)(host_end - text) - bracket;

    if (text[len] && text[len + 1])
        return -1;
    if (host_len >= sizeof(out->host) || (bracket && *host_end != ']'))
        return -1;
    (void)snprintf(out->host, sizeof(out->host), "%.*s", (int)host_len, text + bracket);
    (void)snprintf(out->port, sizeof(out->port), "%s", usual_port);
    if (*port == ':')
        (void)snprintf(out->port, sizeof(out->port), "%.*s",
                       (int)(len - (size_t)(port + 1 - text)), port + 1);
    return is_host(out->host) && is_port(out->port) ? 0 : -1;
}

bool http_is_loopback(const char *host)
{
    return str_eq(host, "localhost") || str_eq(host, "::1") ||
           (str_starts(host, "127.") && strspn(host, "0123456789.") == strlen(host));
}
