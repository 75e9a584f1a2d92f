/* SPDX-License-Identifier: Apache-2.0 */
#include "web/raw.h"

#include <stdlib.h>

#include "web/server.h"

struct web_raw {
    struct web_request *req;
    struct MHD_UpgradeResponseHandle *handle; /* NULL: not yet */
    int fd;                                   /* the handle's */
    struct str first;
};

/* In the loop: the connection is ours from here on. */
/* NOLINTNEXTLINE(readability-function-size): as libmicrohttpd has it */
static void upgraded(void *context, struct MHD_Connection *connection, void *mine,
                     const char *more, size_t len, MHD_socket fd,
                     struct MHD_UpgradeResponseHandle *handle)
{
    struct web_raw *raw = context;

    (void)connection;
    (void)mine;
    (void)pthread_mutex_lock(&raw->req->lock);
    raw->fd = fd;
    raw->handle = handle;
    str_add(&raw->first, more, len);
    (void)pthread_cond_broadcast(&raw->req->changed);
    (void)pthread_mutex_unlock(&raw->req->lock);
}

/* False: the client was gone before. */
static bool await(struct web_raw *raw)
{
    bool good;

    (void)pthread_mutex_lock(&raw->req->lock);
    while (!raw->handle && !raw->req->over)
        (void)pthread_cond_wait(&raw->req->changed, &raw->req->lock);
    good = raw->handle != NULL;
    (void)pthread_mutex_unlock(&raw->req->lock);
    return good;
}

static int answer(struct web_raw *raw, const char *protocol)
{
    struct MHD_Response *response = MHD_create_response_for_upgrade(upgraded, raw);

    if (!response)
        return -1;
    if (web_set_header(raw->req, "Upgrade", protocol) == 0)
        return answer_give(raw->req, 101, NULL, response);
    MHD_destroy_response(response);
    return -1;
}

struct web_raw *web_raw_open(struct web_request *req, const char *protocol)
{
    struct web_raw *raw = calloc(1, sizeof(*raw));

    if (!raw)
        return NULL;
    raw->req = req;
    if (answer(raw, protocol) < 0 || !await(raw)) {
        str_done(&raw->first);
        free(raw);
        return NULL;
    }
    if (!raw->first.failed)
        return raw;
    web_raw_close(raw);
    return NULL;
}

int web_raw_fd(const struct web_raw *raw)
{
    return raw->fd;
}

int web_raw_ending(const struct web_raw *raw)
{
    return raw->req->web->ending_fd;
}

const char *web_raw_first(const struct web_raw *raw, size_t *len)
{
    *len = raw->first.len;
    return raw->first.data;
}

void web_raw_close(struct web_raw *raw)
{
    struct web *web = raw->req->web;

    (void)pthread_mutex_lock(&web->turn);
    (void)MHD_upgrade_action(raw->handle, MHD_UPGRADE_ACTION_CLOSE);
    (void)pthread_mutex_unlock(&web->turn);
    web_nudge(web);
    str_done(&raw->first);
    free(raw);
}
