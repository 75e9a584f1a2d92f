/* SPDX-License-Identifier: Apache-2.0 */

/* What answers at port 49983 of a sandbox: E2B's images have a server there, which is
 * part of vial here. */

#include <string.h>

#include "e2b/connect.h"

static void health(struct ask *a)
{
    ask_done(a);
}

static void envs(struct ask *a)
{
    ask_json(a, 200, json_incref(a->box->env));
}

/* Limits are known, what is used at this moment is not: rather nothing than a guess. */
static void usage(struct ask *a)
{
    ask_refuse(a, 501, "metrics are not kept by this server");
}

static const struct {
    const char *method, *path;
    ask_handler *handler;
} routes[] = {
    { "GET", "/health", health },
    { "GET", "/metrics", usage },
    { "GET", "/envs", envs },
    { "GET", "/files", files_download },
    { "HEAD", "/files", files_download },
    { "POST", "/files", files_upload },
};

/* "/process.Process/Start" -> "Start" */
static const char *method_of(const char *path, const char *service)
{
    size_t len = strlen(service);

    return strncmp(path, service, len) == 0 ? path + len : NULL;
}

void envd_handle(struct ask *a)
{
    const char *process = method_of(a->path, "/process.Process/");
    const char *files = method_of(a->path, "/filesystem.Filesystem/");
    bool posts = strcmp(web_method(a->web), "POST") == 0;

    if (process && posts) {
        process_call(a, process);
        return;
    }
    if (files && posts) {
        filesystem_call(a, files);
        return;
    }
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(routes[i].path, a->path) == 0 &&
            strcmp(routes[i].method, web_method(a->web)) == 0) {
            routes[i].handler(a);
            return;
        }
    ask_refuse(a, 404, "there is nothing under this path");
}
