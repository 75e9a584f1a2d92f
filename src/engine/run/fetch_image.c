/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/fetch_image.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/record/audit_events.h"
#include "images/store.h"
#include "keeper/client/client.h"
#include "model/request.h"
#include "model/result.h"

/* A registry needs a longer pause than an engine beside us. */
#define REGISTRY_TIMES 10

/* As of a run, so that what is done can also be recorded. */
static int reserve(struct vial_engine *e, struct vial_error *err)
{
    if (e->audit)
        return audit_reserve(e->audit, 1, err);
    return record_event(e, "", NULL, err);
}

/* What both records have. WHY may be NULL: it went well. */
static json_t *outcome(const struct vial_engine *e, const char *caller,
                       const char *correlation, int64_t began_ns,
                       const struct vial_error *why)
{
    return json_pack("{s:{s:I, s:I, s:s?, s:s?}, s:s?, s:s, s:o, s:f}", "caller", "uid",
                     (json_int_t)getuid(), "pid", (json_int_t)getpid(), "name", caller,
                     "correlation", correlation, "preset", e->settings->preset,
                     "outcome", why ? "failed" : "ok", "error",
                     why ? error_json(why) : json_null(), "duration_ms",
                     clock_ms_between(began_ns, clock_now_ns()));
}

/* Members of REPORT, or none if that is NULL. */
static void copy_members(json_t *into, json_t *report, const char *const *names)
{
    for (; report && *names; names++)
        (void)json_object_set(into, *names, json_object_get(report, *names));
}

/* Where vial-image is: beside vial's other programs. */
static char *find_program(const struct settings *s)
{
    char *path = path_join(s->share_dir, "vial-image");

    if (path && access(path, X_OK) < 0) {
        free(path);
        path = path_join(VIAL_SHARE_DIR, "vial-image");
    }
    return path;
}

int fetch_into_store(struct vial_engine *e, const char *verb,
                     const struct vial_pull *pull, const struct image_ends *ends,
                     json_t **out, struct vial_error *err)
{
    const struct image_settings *s = &e->settings->image_store;
    auto_free char *store = store_path(s->store, e->settings->home);
    auto_free char *program = find_program(e->settings);
    const struct image_ends nothing = { .in_fd = -1, .out_fd = -1 };
    const struct fetcher f = { .program = program,
                               .store = store,
                               .home = e->settings->home,
                               .registry = s->registry,
                               .mirrors = &s->mirrors,
                               .plain = &s->plain,
                               .max_bytes = s->max_bytes,
                               .max_files = s->max_files,
                               .ends = ends ? *ends : nothing };

    if (e->drivers == kept_drivers) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "the daemon brings no images into its store");
        return fail_remedy(err, "have root do so: 'vial image pull %.120s'",
                           pull->name);
    }
    if (!store || !program)
        return fail_memory(err);
    return fetcher_run(&f, verb, pull, out, err);
}

static struct vial_pull complete(const struct vial_engine *e,
                                 const struct vial_pull *pull)
{
    const struct vial_request *usual = &e->settings->defaults;
    struct vial_pull p = *pull;

    if (p.timeout_ms == 0)
        p.timeout_ms = request_amount(usual, FIELD_ID_pull_timeout);
    if (p.retries == 0) {
        p.retries = (int)request_amount(usual, FIELD_ID_retries);
        p.retry_ms = request_amount(usual, FIELD_ID_retry_wait) * REGISTRY_TIMES;
    }
    return p;
}

/* Records EVENT; WHY it failed, or NULL. Without a record there is no answer either:
 * callers release what they were given. */
static int conclude(struct vial_engine *e, const char *event, json_t *detail,
                    const struct vial_error *why, json_t **out, struct vial_error *err)
{
    if (record_event(e, event, detail, why ? NULL : err) < 0 && !why) {
        json_decref(*out);
        *out = NULL;
        return -1;
    }
    if (why && err)
        *err = *why;
    return why ? -1 : 0;
}

int fetch_pull(struct vial_engine *e, const struct driver *driver,
               const struct vial_pull *pull, json_t **out, struct vial_error *err)
{
    static const char *const told[] = { "id", "digest", "digests", "size", NULL };
    struct vial_pull whole = complete(e, pull);
    int64_t began_ns = clock_now_ns();
    struct vial_error why = { 0 };
    json_t *detail = NULL;
    int rc;

    if (reserve(e, err) < 0)
        return -1;
    rc = policy_check_pull(&e->settings->policy, whole.name, &why);
    if (rc == 0)
        rc = driver->pull ? driver->pull(&whole, out, &why)
                          : fetch_into_store(e, "pull", &whole, NULL, out, &why);
    detail =
        outcome(e, pull->caller, pull->correlation, began_ns, rc < 0 ? &why : NULL);
    if (detail) {
        (void)json_object_set_new(detail, "image", json_string(whole.name));
        copy_members(detail, rc == 0 ? *out : NULL, told);
    }
    return conclude(e, "image.pull", detail, rc < 0 ? &why : NULL, out, err);
}

int fetch_prune(struct vial_engine *e, const struct vial_prune *prune,
                fetch_prune_do *do_prune, json_t **out, struct vial_error *err)
{
    static const char *const told[] = { "removed", "freed_bytes", NULL };
    int64_t began_ns = clock_now_ns();
    struct vial_error why = { 0 };
    json_t *detail = NULL;
    int rc;

    if (reserve(e, err) < 0)
        return -1;
    rc = do_prune(prune->all, out, &why);
    detail =
        outcome(e, prune->caller, prune->correlation, began_ns, rc < 0 ? &why : NULL);
    if (detail) {
        (void)json_object_set_new(detail, "all", json_boolean(prune->all));
        copy_members(detail, rc == 0 ? *out : NULL, told);
    }
    return conclude(e, "image.prune", detail, rc < 0 ? &why : NULL, out, err);
}

int fetch_for(struct vial_engine *e, const struct driver *driver,
              const struct plan *plan, const struct vial_watch *watch,
              struct vial_error *err)
{
    const struct plan_container *c = &plan->container;
    const struct vial_pull pull = { .name = plan->image,
                                    .timeout_ms = c->pull_ms,
                                    .cancel_fd = watch ? watch->cancel_fd : -1,
                                    .progress = watch ? watch->pulling : NULL,
                                    .context = watch ? watch->context : NULL,
                                    .caller = watch ? watch->caller : NULL,
                                    .correlation = plan->correlation,
                                    .retries = c->retries ? (int)c->retries : -1,
                                    .retry_ms = c->retry_ms * REGISTRY_TIMES };
    auto_json json_t *image = NULL;

    return fetch_pull(e, driver, &pull, &image, err);
}
