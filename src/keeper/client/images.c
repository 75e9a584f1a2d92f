/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/client/images.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "keeper/client/ask.h"
#include "keeper/client/client.h"
#include "model/vessel_list.h"

#define TEXT_MAX (8u << 20) /* of a whole answer */
#define LIST_MS  60000
#define PRUNE_MS 300000
#define MORE_MS  10000 /* the engine's own time-out comes before ours */

/* An answer while it comes: steps of a pull, parts of a text, and its end. */
struct coming {
    const char *what;
    const struct vial_pull *pull; /* or NULL */
    int64_t until_ns;
    struct str text;
};

static int add_part(struct coming *c, struct unpack *u, struct vial_error *err)
{
    size_t len = 0;
    const uint8_t *part = unpack_bytes(u, &len);

    if (!unpack_finished(u) || c->text.len + len > TEXT_MAX)
        return fail(err, VIAL_E_KEEPER, "%s: the keeper's answer makes no sense",
                    c->what);
    str_add(&c->text, (const char *)part, len);
    return 0;
}

static int tell_step(struct coming *c, struct unpack *u, struct vial_error *err)
{
    auto_free char *layer = unpack_text(u);
    auto_free char *status = unpack_text(u);
    uint64_t current = unpack_u64(u);
    uint64_t total = unpack_u64(u);

    if (!unpack_finished(u) || !layer || !status)
        return fail(err, VIAL_E_KEEPER, "%s: the keeper's answer makes no sense",
                    c->what);
    if (c->pull && c->pull->progress &&
        c->pull->progress(c->pull->context, layer, status, current, total) != 0)
        return fail(err, VIAL_E_CANCELLED, "%s: given up", c->what);
    return 0;
}

/* 1 when the answer is whole, 0 when more is to come. */
static int take(struct coming *c, const uint8_t *data, size_t len,
                struct vial_error *err)
{
    struct unpack u = { .data = data, .len = len };
    uint32_t verb = unpack_u32(&u);

    if (verb == TALK_STEP)
        return tell_step(c, &u, err);
    if (verb == TALK_PART)
        return add_part(c, &u, err);
    if (verb == TALK_GOOD)
        return add_part(c, &u, err) < 0 ? -1 : 1;
    if (verb != TALK_BAD)
        return ask_gone(err, c->what);
    talk_read_error(&u, err);
    return -1;
}

/* 0 when there is something to read. */
static int wait_for(const struct coming *c, int pair, struct vial_error *err)
{
    struct pollfd ready[] = { { .fd = pair, .events = POLLIN },
                              { .fd = c->pull ? c->pull->cancel_fd : -1,
                                .events = POLLIN } };
    double left_ms = clock_ms_between(clock_now_ns(), c->until_ns);
    int rc;

    do
        rc = poll(ready, 2, left_ms > 0 ? (int)left_ms : 0);
    while (rc < 0 && errno == EINTR);
    if (ready[1].revents)
        return fail(err, VIAL_E_CANCELLED, "%s: given up", c->what);
    if (rc <= 0)
        return fail(err, VIAL_E_ENGINE_TIMEOUT, "%s: no answer in time", c->what);
    return 0;
}

static int hear_all(struct coming *c, int pair, struct vial_error *err)
{
    auto_free uint8_t *data = malloc(TALK_MAX);
    int rc = data ? 0 : fail_memory(err);

    while (rc == 0) {
        ssize_t n;

        rc = wait_for(c, pair, err);
        if (rc < 0)
            break;
        n = talk_receive(pair, data, TALK_MAX, NULL);
        rc = n <= 0 ? ask_gone(err, c->what) : take(c, data, (size_t)n, err);
    }
    return rc;
}

/* Takes P. */
static int ask(struct coming *c, struct pack *p, int64_t timeout_ms, json_t **out,
               struct vial_error *err)
{
    auto_fd int pair = ask_send(KEPT_FD_docker, p, c->what, err);
    int rc;

    pack_done(p);
    if (pair < 0)
        return -1;
    c->until_ns = clock_now_ns() + timeout_ms * 1000000;
    rc = hear_all(c, pair, err);
    if (rc > 0)
        rc = str_ok(&c->text) ? json_parse(c->text.data ? c->text.data : "",
                                           c->text.len, "the keeper's answer", out, err)
                              : fail_memory(err);
    str_done(&c->text);
    return rc < 0 ? -1 : 0;
}

int kept_vessel_list(struct vial_vessels *list, struct vial_error *err)
{
    struct coming c = { .what = "list the engine's vessels" };
    auto_json json_t *all = NULL;
    struct pack p = { 0 };

    pack_u32(&p, TALK_VESSELS);
    if (ask(&c, &p, LIST_MS, &all, err) < 0)
        return -1;
    return vessels_decode(list, all) < 0 ? fail_memory(err) : 0;
}

int kept_image_list(json_t **out, struct vial_error *err)
{
    struct coming c = { .what = "list the images" };
    struct pack p = { 0 };

    pack_u32(&p, TALK_IMAGES);
    return ask(&c, &p, LIST_MS, out, err);
}

int kept_image_prune(bool all, json_t **out, struct vial_error *err)
{
    struct coming c = { .what = "remove images" };
    struct pack p = { 0 };

    pack_u32(&p, TALK_PRUNE);
    pack_u32(&p, all);
    return ask(&c, &p, PRUNE_MS, out, err);
}

int kept_image_pull(const struct vial_pull *pull, json_t **out, struct vial_error *err)
{
    struct coming c = { .what = "pull the image", .pull = pull };
    struct pack p = { 0 };

    pack_u32(&p, TALK_PULL);
    pack_text(&p, pull->name);
    pack_u64(&p, (uint64_t)pull->timeout_ms);
    pack_u32(&p, pull->retries > 0 ? (uint32_t)pull->retries : 0);
    pack_u64(&p, (uint64_t)pull->retry_ms);
    return ask(&c, &p, pull->timeout_ms + MORE_MS, out, err);
}
