/* SPDX-License-Identifier: Apache-2.0 */

/* Files that a build copies. An SDK asks where to bring them, and brings them there
 * without its key: the address is the secret. They are kept as they come, and read by
 * nobody but a program of the build's sandbox. */

#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/builds.h"
#include "e2b/control.h"

#define BEHIND "/uploads?token="

/* The server's own origin, as who asks calls it. */
static void put_origin(const struct ask *a, struct str *out)
{
    const struct serve_settings *s = &a->turn->settings->serve;
    const char *host = web_header(a->web, "Host");
    const char *by = web_header(a->web, "X-Forwarded-Proto");
    bool tls = s->tls_cert || (by && strcasecmp(by, "https") == 0);
    size_t below = strlen(web_path(a->web)) - strlen(a->path); /* a prefix of the URL */

    str_printf(out, "%s://%s%.*s", tls ? "https" : "http", host ? host : "localhost",
               (int)below, web_path(a->web));
}

void control_build_files(struct ask *a)
{
    auto_build struct build *b = builds_find(a->e2b, a->owner.name, a->arg, NULL);
    auto_str struct str url = { 0 };
    struct vial_error err = { 0 };
    char token[BOX_TOKEN];
    bool present = false;

    if (!b) {
        ask_refuse(a, 404, "template '%s' is not being built", a->arg);
        return;
    }
    if (strlen(a->arg2) >= sizeof(b->files->hash) ||
        strspn(a->arg2, "0123456789abcdef") != strlen(a->arg2)) {
        ask_refuse(a, 400, "that is not a hash of files");
        return;
    }
    if (builds_link(b, a->arg2, &present, token, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    put_origin(a, &url);
    str_printf(&url, BEHIND "%s", token);
    ask_json(a, 201,
             str_ok(&url) ? json_pack("{s:b, s:s}", "present", present, "url", url.data)
                          : NULL);
}

void control_upload(struct ask *a)
{
    const char *token = web_query(a->web, "token");
    const char *why = NULL;
    size_t bytes = 0;
    unsigned status;
    int fd;

    if (strcmp(web_method(a->web), "PUT") != 0) {
        ask_refuse(a, 405, "files are brought by PUT");
        return;
    }
    (void)web_body(a->web, &bytes);
    fd = web_body_fd(a->web);
    if (fd < 0) {
        ask_refuse(a, 503, "no descriptor is left");
        return;
    }
    status = builds_put(a->e2b, token ? token : "", fd, bytes, &why);
    if (status == 200)
        ask_text(a, 200, "text/plain", "");
    else
        ask_refuse(a, status, "%s", why);
}
