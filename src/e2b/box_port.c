/* SPDX-License-Identifier: Apache-2.0 */

/* What comes to any other port of a sandbox is passed on to what listens there. Under a
 * host name of its own ("3000-ID.example.com") that is a site like others; by headers
 * alone it lies on the daemon's origin, and can do nothing to it (web/forward.h). */

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/http_ask.h"
#include "web/forward.h"

static void used(void *context)
{
    inside_touch(context);
}

/* What the server inside is called: what the sandbox was made with, "${PORT}" in it
 * being the port; or as the client says. */
static void name_host(const struct ask *a, struct str *out)
{
    const char *mask =
        json_string_value(json_object_get(a->box->network, "maskRequestHost"));
    const char *own = a->own_host ? web_header(a->web, "Host") : NULL;
    const char *mark = mask ? strstr(mask, "${PORT}") : NULL;

    if (mark)
        str_printf(out, "%.*s%u%s", (int)(mark - mask), mask, a->port,
                   mark + strlen("${PORT}"));
    else if (mask || own)
        str_puts(out, mask ? mask : own);
    else
        str_printf(out, "localhost:%u", a->port);
}

static void not_open(struct ask *a)
{
    ask_json(a, 502,
             json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", a->box->id, "message",
                       "The sandbox is running but port is not open", "port",
                       (int)a->port, "code", 502));
}

/* An application's own is passed on; several are judged by nobody. */
static bool is_our_credential(const struct ask *a)
{
    const char *given = web_header(a->web, "Authorization");
    struct e2b_owner owner;

    if (!given || web_header_repeated(a->web, "Authorization"))
        return given != NULL;
    return strncasecmp(given, "Bearer ", 7) == 0 &&
           a->e2b->options.owner(a->e2b->options.context, given + 7, &owner);
}

static int forward(struct ask *a, int fd, const char *host, struct vial_error *err)
{
    static const char *const all[] = { "Authorization",
                                       "E2b-Sandbox-Id",
                                       "E2b-Sandbox-Port",
                                       "E2B-Traffic-Access-Token",
                                       "X-API-Key",
                                       "X-Access-Token",
                                       NULL };
    const char *const *ours = is_our_credential(a) ? all : all + 1;
    const struct web_forward how = { .fd = fd,
                                     .target = a->target,
                                     .host = host,
                                     .prefix = "",
                                     .own_origin = a->own_host,
                                     .kept = ours,
                                     .used = used,
                                     .context = box_session(a->box) };

    return web_forward(a->web, &how, &a->turn->status, err);
}

void port_handle(struct ask *a)
{
    struct vial_error err = { 0 };
    auto_str struct str host = { 0 };
    auto_fd int fd = -1;

    name_host(a, &host);
    if (!str_ok(&host)) {
        ask_refuse(a, 500, "out of memory");
    } else if (!a->own_host && web_header(a->web, "Service-Worker")) {
        ask_proxy(a, 403, a->box->id,
                  "a port that is reached by headers can have no service worker");
    } else if (vial_session_connect(box_session(a->box), a->port, &fd, &err) < 0) {
        char words[ASK_WORDS];

        ask_words(&err, words);
        ask_proxy(a, 501, a->box->id, words);
    } else if (forward(a, fd, host.data, &err) < 0) {
        not_open(a);
    }
}
