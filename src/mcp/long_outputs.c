/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/long_outputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define PIECES_MAX 512u
#define BYTES_MAX  (64u << 20)

struct piece {
    struct piece *next;
    char *owner, *uri;
    struct blob data;
};

struct mcp_runs {
    pthread_mutex_t lock;
    struct piece *pieces; /* newest first */
    size_t count, bytes;
};

struct mcp_runs *mcp_runs_new(void)
{
    struct mcp_runs *runs = calloc(1, sizeof *runs);

    if (runs)
        (void)pthread_mutex_init(&runs->lock, NULL);
    return runs;
}

static void piece_free(struct piece *p)
{
    free(p->owner);
    free(p->uri);
    blob_done(&p->data);
    free(p);
}

void mcp_runs_free(struct mcp_runs *runs)
{
    if (!runs)
        return;
    while (runs->pieces) {
        struct piece *next = runs->pieces->next;

        piece_free(runs->pieces);
        runs->pieces = next;
    }
    (void)pthread_mutex_destroy(&runs->lock);
    free(runs);
}

static struct piece *piece_new(const char *owner, const char *id, const char *name,
                               const void *data, size_t len)
{
    struct piece *p = calloc(1, sizeof *p);
    struct str uri = { 0 };

    if (!p)
        return NULL;
    str_printf(&uri, MCP_RUNS_URI "%s/%s", id, name);
    p->owner = strdup(owner);
    p->uri = str_take(&uri);
    if (p->owner && p->uri && blob_set(&p->data, data, len) == 0)
        return p;
    piece_free(p);
    return NULL;
}

/* With the lock held. */
static void drop_oldest(struct mcp_runs *runs)
{
    struct piece **at = &runs->pieces;

    while (*at && (*at)->next)
        at = &(*at)->next;
    if (!*at)
        return;
    runs->count--;
    runs->bytes -= (*at)->data.len;
    piece_free(ptr_take(at));
}

bool mcp_runs_keep(struct mcp_runs *runs, const char *owner, const char *id,
                   const char *name, const void *data, size_t len)
{
    struct piece *p;

    if (!runs || len > BYTES_MAX / 2)
        return false;
    p = piece_new(owner, id, name, data, len);
    if (!p)
        return false;
    (void)pthread_mutex_lock(&runs->lock);
    while (runs->count > 0 &&
           (runs->count >= PIECES_MAX || runs->bytes + len > BYTES_MAX))
        drop_oldest(runs);
    p->next = runs->pieces;
    runs->pieces = p;
    runs->count++;
    runs->bytes += len;
    (void)pthread_mutex_unlock(&runs->lock);
    return true;
}

static struct piece *find(struct mcp_runs *runs, const char *owner, const char *uri)
{
    for (struct piece *p = runs->pieces; p; p = p->next)
        if (strcmp(p->uri, uri) == 0 && strcmp(p->owner, owner) == 0)
            return p;
    return NULL;
}

/* NOLINTNEXTLINE(readability-function-size): whose, which, a range and its bytes */
bool mcp_runs_read(struct mcp_runs *runs, const char *owner, const char *uri,
                   uint64_t offset, uint64_t len, struct blob *out, uint64_t *total)
{
    struct piece *p;
    bool found = false;

    if (!runs)
        return false;
    (void)pthread_mutex_lock(&runs->lock);
    p = find(runs, owner, uri);
    if (p) {
        size_t from = offset < p->data.len ? (size_t)offset : p->data.len;
        size_t left = p->data.len - from;

        *total = p->data.len;
        found = blob_set(out, p->data.len ? p->data.data + from : "",
                         len && len < left ? (size_t)len : left) == 0;
    }
    (void)pthread_mutex_unlock(&runs->lock);
    return found;
}

json_t *mcp_runs_list(struct mcp_runs *runs, const char *owner)
{
    json_t *list = json_array();

    if (!runs)
        return list;
    (void)pthread_mutex_lock(&runs->lock);
    for (struct piece *p = runs->pieces; p; p = p->next)
        if (strcmp(p->owner, owner) == 0)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:I}", "uri", p->uri, "name",
                                p->uri + strlen(MCP_RUNS_URI), "mimeType",
                                mcp_media(p->uri), "size", (json_int_t)p->data.len));
    (void)pthread_mutex_unlock(&runs->lock);
    return list;
}

const char *mcp_media(const char *name)
{
    static const struct {
        const char *end, *media;
    } known[] = {
        { ".png", "image/png" },         { ".jpg", "image/jpeg" },
        { ".jpeg", "image/jpeg" },       { ".gif", "image/gif" },
        { ".webp", "image/webp" },       { ".svg", "image/svg+xml" },
        { ".json", "application/json" }, { ".csv", "text/csv" },
        { ".html", "text/html" },        { ".md", "text/markdown" },
        { ".pdf", "application/pdf" },   { ".txt", "text/plain" },
        { "/stdout", "text/plain" },     { "/stderr", "text/plain" },
        { ".py", "text/x-python" },      { ".js", "text/javascript" },
    };
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].end);

        if (len >= n && strcmp(name + len - n, known[i].end) == 0)
            return known[i].media;
    }
    return "application/octet-stream";
}
