/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "model/policy.h"
#include "model/result.h"
#include "serve/bodies.h"
#include "serve/route.h"

#include "vial/vessels.h"

void images_list(struct call *c)
{
    struct vial_error err = { 0 };
    json_t *list = NULL;

    if (inside_images(c->gen->engine, &list, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200, list);
}

struct pulling {
    struct stream s;
    struct metrics *metrics;
    char layer[72];
    unsigned long long seen; /* of the layer that was told of last */
};

static int tell(void *context, const char *layer, const char *status,
                unsigned long long current, unsigned long long total)
{
    struct pulling *p = context;

    if (strcmp(p->layer, layer) != 0)
        p->seen = 0;
    (void)snprintf(p->layer, sizeof(p->layer), "%s", layer);
    if (current > p->seen)
        metrics_add(p->metrics, &p->metrics->pull_bytes, current - p->seen);
    p->seen = current;
    if (p->s.form == STREAM_NONE)
        return 0;
    return stream_pull(&p->s, layer, status, current, total);
}

/* Takes IMAGE. */
static void conclude(struct call *c, struct pulling *p, int rc, json_t *image,
                     const struct vial_error *err)
{
    struct metrics *m = p->metrics;

    metrics_add(m, rc == 0 ? &m->pulls : &m->pulls_failed, 1);
    metrics_add(m, &m->pulls_now, (uint64_t)-1);
    if (p->s.form == STREAM_NONE && rc < 0)
        call_error(c, err);
    else if (p->s.form == STREAM_NONE)
        call_json(c, 200, image);
    else if (rc < 0)
        (void)stream_last(&p->s, "error",
                          json_pack("{s:o, s:s*}", "error", error_json(err),
                                    "preset_code",
                                    vial_preset_code(c->gen->engine, err->code)));
    else
        (void)stream_last(&p->s, "image", json_pack("{s:o}", "image", image));
}

void images_pull(struct call *c)
{
    struct pull_body body = { 0 };
    struct vial_error err = { 0 };
    struct pulling p = { .metrics = &c->serve->metrics };
    struct vial_pull pull = { .cancel_fd = web_gone_fd(c->web),
                              .progress = tell,
                              .context = &p,
                              .caller = c->who.name,
                              .correlation = c->id };
    enum stream_form form;
    json_t *image = NULL;
    int rc;

    if (stream_wanted(c, &form, &err) < 0 || body_read(c, BODY_pull, &body, &err) < 0 ||
        policy_check_pull(&c->gen->settings->policy, body.name, &err) < 0) {
        call_error(c, &err);
        return;
    }
    pull.name = body.name;
    pull.timeout_ms = body.timeout;
    if (form != STREAM_NONE && stream_start(&p.s, c, form) < 0)
        return;
    metrics_add(p.metrics, &p.metrics->pulls_now, 1);
    rc = inside_image_pull(c->gen->engine, &pull, &image, &err);
    conclude(c, &p, rc, image, &err);
}

void images_prune(struct call *c)
{
    struct prune_body body = { 0 };
    struct vial_error err = { 0 };
    struct vial_prune prune = { .caller = c->who.name, .correlation = c->id };
    json_t *report = NULL;
    int rc = body_read(c, BODY_prune, &body, &err);

    prune.all = body.all;
    if (rc < 0 || inside_image_prune(c->gen->engine, &prune, &report, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200, report);
}
