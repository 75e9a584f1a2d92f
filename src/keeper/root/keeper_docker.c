/* SPDX-License-Identifier: Apache-2.0 */

/* Answers what the front asks of the container engine besides opening vessels: its
 * images, and which vessels there are. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "driver/docker/docker.h"
#include "driver/docker/image.h"
#include "driver/list.h"
#include "keeper/root/keeper.h"
#include "keeper/talk/talk.h"

#define PART     (TALK_MAX / 2)
#define READ_MS  10000 /* a front that has not read by then has no more to expect */
#define PULL_MS  (INT64_C(24) * 60 * 60 * 1000)
#define RETRIES  20
#define RETRY_MS (INT64_C(10) * 60 * 1000)

/* One message of a longer answer. */
static int send_part(const struct warden *w, uint32_t verb, const char *text,
                     size_t len)
{
    struct pollfd ready = { .fd = w->leash_fd, .events = POLLOUT };
    struct pack p = { 0 };
    int rc;

    pack_u32(&p, verb);
    pack_bytes(&p, text, len);
    rc = talk_send(w->leash_fd, &p, NULL, 0);
    if (rc == -EAGAIN && poll(&ready, 1, READ_MS) == 1)
        rc = talk_send(w->leash_fd, &p, NULL, 0);
    pack_done(&p);
    return rc;
}

/* Takes VALUE. */
static void answer_json(const struct warden *w, json_t *value, struct vial_error *err)
{
    auto_json json_t *json = value;
    auto_free char *text = json_dumps(json, JSON_COMPACT);
    size_t left = text ? strlen(text) : 0;
    const char *at = text;

    if (!text) {
        (void)fail_memory(err);
        warden_refuse(w, err);
        return;
    }
    for (; left > PART; at += PART, left -= PART)
        if (send_part(w, TALK_PART, at, PART) < 0)
            return;
    (void)send_part(w, TALK_GOOD, at, left);
}

/* A step that the front is too slow for is left out. */
static int tell_step(void *context, const char *layer, const char *status,
                     unsigned long long current, unsigned long long total)
{
    const struct warden *w = context;
    struct pack p = { 0 };

    pack_u32(&p, TALK_STEP);
    pack_text(&p, layer);
    pack_text(&p, status);
    pack_u64(&p, current);
    pack_u64(&p, total);
    (void)talk_send(w->leash_fd, &p, NULL, 0);
    pack_done(&p);
    return 0;
}

/* The front lets go of the pair when its caller has gone. */
static int pull(struct warden *w, const struct api *api, json_t **out,
                struct vial_error *err)
{
    auto_free char *name = unpack_text(&w->request);
    uint64_t timeout_ms = unpack_u64(&w->request);
    uint32_t retries = unpack_u32(&w->request);
    uint64_t retry_ms = unpack_u64(&w->request);
    const struct vial_pull wanted = { .name = name,
                                      .timeout_ms = (long long)timeout_ms,
                                      .cancel_fd = w->leash_fd,
                                      .progress = tell_step,
                                      .context = w,
                                      .retries = (int)retries,
                                      .retry_ms = (long long)retry_ms };

    if (!unpack_finished(&w->request) || !name || timeout_ms == 0 ||
        timeout_ms > PULL_MS || retries > RETRIES || retry_ms > RETRY_MS)
        return fail(err, VIAL_E_VALUE, "the pull is not understood");
    if (policy_check_pull(&w->keeper->rules.settings.policy, name, err) < 0)
        return -1;
    return image_pull(api, &wanted, out, err);
}

static int prune(struct warden *w, const struct api *api, json_t **out,
                 struct vial_error *err)
{
    bool all = unpack_u32(&w->request) == 1;

    if (!unpack_finished(&w->request))
        return fail(err, VIAL_E_VALUE, "what to remove is not understood");
    return image_prune(api, all, out, err);
}

static int list(json_t **out, struct vial_error *err)
{
    auto_vessels struct vial_vessels all = { 0 };

    if (list_contained(&all, err) < 0)
        return -1;
    *out = vessels_json(&all);
    return *out ? 0 : fail_memory(err);
}

/* The life of a warden that was asked about images. */
static void images_serve(struct warden *w, struct vial_error *err)
{
    json_t *out = NULL;
    struct api api;
    int rc = api_find(&api, err);

    if (rc == 0 && w->verb == TALK_VESSELS)
        rc = list(&out, err);
    else if (rc == 0 && w->verb == TALK_PULL)
        rc = pull(w, &api, &out, err);
    else if (rc == 0 && w->verb == TALK_PRUNE)
        rc = prune(w, &api, &out, err);
    else if (rc == 0)
        rc = image_list(&api, &out, err);
    if (rc < 0)
        warden_refuse(w, err);
    else
        answer_json(w, out, err);
}

const struct driver *const keeper_driver = &driver_docker;
keeper_task *const keeper_images = images_serve;

/* Root's name is enough to use the engine's socket; the engine does the rest. */
const uint64_t keeper_caps = 0;
