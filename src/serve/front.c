/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/front.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/thread.h"
#include "serve/door.h"
#include "serve/sessions_at.h"

#define PEM_MAX    ((size_t)1 << 20)
#define RETIRED_NS (20 * INT64_C(1000000000))   /* for requests that may still come */
#define AWAITED_NS (3600 * INT64_C(1000000000)) /* more, for those under way */

static int take_inherited(struct front *f, int count, struct vial_error *err)
{
    for (int i = 0; i < count && f->count < SERVE_LISTENERS; i++) {
        struct listener *l = &f->listeners[f->count++];
        struct sockaddr_storage at = { 0 };
        socklen_t len = sizeof(at);

        *l = (struct listener){ .fd = 3 + i };
        if (getsockname(l->fd, (struct sockaddr *)&at, &len) < 0)
            return fail_sys(err, "look at the inherited socket %d", l->fd);
        l->tcp = at.ss_family != AF_UNIX;
        (void)fcntl(l->fd, F_SETFD, FD_CLOEXEC);
        (void)io_set_nonblocking(l->fd);
        (void)snprintf(l->shown, sizeof(l->shown), "inherited:%d", l->fd);
    }
    return 0;
}

static int bind_usual(struct front *f, const struct serve_settings *s,
                      struct vial_error *err)
{
    auto_free char *path = listen_usual();
    auto_str struct str address = { 0 };

    str_printf(&address, "unix:%s", path ? path : "");
    if (!path || !str_ok(&address))
        return fail_memory(err);
    return listen_open(address.data, s, &f->listeners[f->count++], err);
}

static int read_certificate(struct front *f, const struct serve_settings *s,
                            struct vial_error *err)
{
    struct blob cert = { 0 };
    struct blob key = { 0 };

    if (!s->tls_cert || !s->tls_key)
        return 0;
    if (io_read_file(s->tls_cert, PEM_MAX, &cert, err) < 0 ||
        io_read_file(s->tls_key, PEM_MAX, &key, err) < 0) {
        blob_done(&cert);
        return -1;
    }
    blob_done(&f->cert);
    blob_done(&f->key);
    f->cert = cert;
    f->key = key;
    return 0;
}

int front_bind(struct front *f, const struct serve_settings *s, struct vial_error *err)
{
    int inherited = listen_inherited();

    *f = (struct front){ 0 };
    if (read_certificate(f, s, err) < 0)
        return -1;
    f->inherited = inherited > 0;
    if (f->inherited)
        return take_inherited(f, inherited, err);
    if (s->listen.count == 0)
        return bind_usual(f, s, err);
    for (size_t i = 0; i < s->listen.count && f->count < SERVE_LISTENERS; i++)
        if (listen_open(s->listen.items[i], s, &f->listeners[f->count++], err) < 0)
            return -1;
    return 0;
}

static int open_web(struct front *f, size_t i, const struct serve_settings *s,
                    struct vial_error *err)
{
    struct web_options o = {
        .body_bytes = (size_t)s->body,
        .connections = door_connections(s),
        .handlers = DOOR_HANDLERS,
        .idle_s = (unsigned)(s->idle / 1000),
        .slow_s = (unsigned)(s->slow / 1000),
        .nice = f->serve->nice,
        .handler = serve_handle,
        .refused = serve_refused,
        .door = &serve_door,
        .passed = s->sessions_for.count > 0 ? SESSIONS_PATH : NULL,
        .passed_mark = SESSIONS_MARK,
        .context = f->serve,
    };
    int rc;

    if (f->listeners[i].tcp && f->cert.data) {
        o.tls_cert = f->cert.data;
        o.tls_key = f->key.data;
    }
    /* Our own stays open, for the time when the server is replaced. */
    o.listen_fd = fcntl(f->listeners[i].fd, F_DUPFD_CLOEXEC, 3);
    rc = o.listen_fd < 0 ? fail_sys(err, "copy a socket")
                         : web_open(&o, &f->webs[i], err);
    return rc < 0 ? fail_in(err, "%s", f->listeners[i].shown) : 0;
}

static void show(struct front *f)
{
    (void)pthread_mutex_lock(&f->serve->lock);
    memcpy(f->serve->listeners, f->webs, sizeof(f->webs));
    f->serve->listener_count = f->count;
    (void)pthread_mutex_unlock(&f->serve->lock);
}

int front_open(struct front *f, struct serve *serve, struct vial_error *err)
{
    f->serve = serve;
    for (size_t i = 0; i < f->count; i++)
        if (open_web(f, i, &serve->now->settings->serve, err) < 0)
            return -1;
    show(f);
    return 0;
}

static void *close_later(void *web)
{
    web_close(web);
    return NULL;
}

/* What still runs there ends as if its client had gone. */
static void let_go(struct retired *r)
{
    web_drain(r->web);
    (void)thread_start_alone(THREAD_STACK, close_later, r->web);
    *r = (struct retired){ 0 };
}

/* A free place; else that of the oldest. */
static struct retired *find_place(struct front *f)
{
    struct retired *oldest = f->retired;

    for (size_t i = 0; i < RETIRED_MOST; i++) {
        if (!f->retired[i].web)
            return &f->retired[i];
        if (f->retired[i].until_ns < oldest->until_ns)
            oldest = &f->retired[i];
    }
    let_go(oldest);
    return oldest;
}

static void retire(struct front *f, struct web *old)
{
    struct retired *r = find_place(f);

    web_retire(old);
    *r = (struct retired){ old, clock_now_ns() + RETIRED_NS };
}

static bool is_awaited(const struct retired *r)
{
    int64_t late_ns = clock_now_ns() - r->until_ns;
    struct web_counts counts = { 0 };

    web_count(r->web, &counts);
    return (counts.connections && late_ns < 0) ||
           (counts.handlers && late_ns < AWAITED_NS);
}

bool front_settle(struct front *f)
{
    bool settled = true;

    for (size_t i = 0; i < RETIRED_MOST; i++) {
        if (!f->retired[i].web)
            continue;
        if (is_awaited(&f->retired[i]))
            settled = false;
        else
            let_go(&f->retired[i]);
    }
    return settled;
}

/* After one that could not be opened. */
static void take_back(struct front *f, struct web *const old[SERVE_LISTENERS])
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->webs[i] != old[i])
            web_close(f->webs[i]);
        f->webs[i] = old[i];
    }
}

int front_reopen(struct front *f, struct vial_error *err)
{
    struct web *old[SERVE_LISTENERS];

    if (read_certificate(f, &f->serve->now->settings->serve, err) < 0)
        return -1;
    memcpy(old, f->webs, sizeof(old));
    for (size_t i = 0; i < f->count; i++)
        if (f->listeners[i].tcp &&
            open_web(f, i, &f->serve->now->settings->serve, err) < 0) {
            take_back(f, old);
            return -1;
        }
    show(f);
    for (size_t i = 0; i < f->count; i++)
        if (f->webs[i] != old[i])
            retire(f, old[i]);
    return 0;
}

void front_drain(struct front *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->webs[i])
            web_drain(f->webs[i]);
    for (size_t i = 0; i < RETIRED_MOST; i++)
        if (f->retired[i].web)
            web_drain(f->retired[i].web);
}

static unsigned handlers_of(struct web *web)
{
    struct web_counts counts = { 0 };

    if (web)
        web_count(web, &counts);
    return counts.handlers;
}

unsigned front_busy(const struct front *f)
{
    unsigned busy = 0;

    for (size_t i = 0; i < f->count; i++)
        busy += handlers_of(f->webs[i]);
    for (size_t i = 0; i < RETIRED_MOST; i++)
        busy += handlers_of(f->retired[i].web);
    return busy;
}

void front_close(struct front *f)
{
    for (size_t i = 0; i < f->count; i++)
        web_close(f->webs[i]);
    for (size_t i = 0; i < RETIRED_MOST; i++)
        web_close(f->retired[i].web);
    memset(f->webs, 0, sizeof(f->webs));
    memset(f->retired, 0, sizeof(f->retired));
    if (f->serve)
        f->serve->listener_count = 0;
    for (size_t i = 0; i < f->count; i++)
        listen_close(&f->listeners[i]);
    blob_done(&f->cert);
    blob_done(&f->key);
}
