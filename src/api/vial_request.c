/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/give.h"
#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/engine.h"
#include "model/request.h"
#include "model/value.h"

#include "vial/plan.h"
#include "vial/request.h"

AUTO(owned_request, struct vial_request, vial_request_free)
#define auto_owned_request __attribute__((cleanup(auto_owned_request_)))

int vial_request_new(struct vial_request **out, struct vial_error *err)
{
    struct vial_request *req = calloc(1, sizeof(*req));

    if (!req)
        return fail_memory(err);
    *out = req;
    return 0;
}

int vial_request_parse(const char *json, size_t len, struct vial_request **out,
                       struct vial_error *err)
{
    auto_owned_request struct vial_request *req = NULL;
    auto_json json_t *object = NULL;

    if (json_parse(json, len, "request", &object, err) < 0 ||
        vial_request_new(&req, err) < 0 ||
        request_decode(req, object, 0, "request", err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

int vial_request_set_bytes(struct vial_request *req, const char *field,
                           const void *data, size_t len, struct vial_error *err)
{
    const struct field *f = field_find(field);
    auto_free char *text = NULL;

    if (!f)
        return value_unknown(err, "field", field, field_names, " in request");
    if (f->type == FIELD_TEXT) /* which needs no NUL behind it */
        return request_set_text(req, field_id_of(f), data, len, "request", err);
    text = len < SIZE_MAX ? malloc(len + 1) : NULL;
    if (!text)
        return fail_memory(err);
    memcpy(text, data, len);
    text[len] = '\0';
    return request_set_text(req, field_id_of(f), text, len, "request", err);
}

int vial_request_set(struct vial_request *req, const char *field, const char *value,
                     struct vial_error *err)
{
    return vial_request_set_bytes(req, field, value, strlen(value), err);
}

void vial_request_free(struct vial_request *req)
{
    if (!req)
        return;
    request_done(req);
    free(req);
}

/* What is given away, and what it points into. */
struct shown_plan {
    struct vial_plan shown; /* first: who frees it has this address */
    struct plan *plan;
};

static const char *const *list_of(const struct strv *v)
{
    return (const char *const *)v->items;
}

static struct vial_plan show(const struct plan *plan)
{
    return (struct vial_plan){
        .id = plan->id,
        .driver = plan->driver,
        .language = plan->language,
        .compile = list_of(&plan->compile_argv),
        .argv = list_of(&plan->argv),
        .env = list_of(&plan->env),
        .workdir = plan->workdir,
        .cwd = plan->cwd,
        .file = plan_code_file(plan),
        .image = plan->image,
        .seccomp = plan->seccomp,
        .seccomp_file = plan->seccomp_file,
    };
}

int vial_plan_new(struct vial_engine *engine, const struct vial_request *req,
                  struct vial_plan **out, struct vial_error *err)
{
    struct shown_plan *p = calloc(1, sizeof(*p));
    const struct driver *driver = NULL;

    if (!p)
        return fail_memory(err);
    if (engine_plan(engine, req, &driver, &p->plan, err) < 0) {
        free(p);
        return -1;
    }
    p->shown = show(p->plan);
    *out = &p->shown;
    return 0;
}

int64_t vial_plan_limit(const struct vial_plan *plan, const char *field)
{
    const struct shown_plan *p = (const struct shown_plan *)plan;

    for (size_t i = 0; i < LIMIT_COUNT; i++)
        if (str_eq(fields[limit_rows[i].field].name, field))
            return limits_get(&p->plan->limits, &limit_rows[i]);
    return 0;
}

void vial_plan_free(struct vial_plan *plan)
{
    struct shown_plan *p = (struct shown_plan *)plan;

    if (p)
        plan_free(p->plan);
    free(p);
}

int inside_plan(struct vial_engine *engine, const struct vial_request *req,
                json_t **out, struct vial_error *err)
{
    auto_plan struct plan *plan = NULL;
    auto_json json_t *shown = NULL;
    const struct driver *driver;

    if (engine_plan(engine, req, &driver, &plan, err) < 0)
        return -1;
    shown = plan_json(plan);
    if (!shown)
        return fail_memory(err);
    if (driver->describe &&
        driver->describe(plan, engine->settings->share_dir, shown, err) < 0)
        return -1;
    *out = ptr_take(&shown);
    return 0;
}

int vial_plan(struct vial_engine *engine, const struct vial_request *req, char **json,
              struct vial_error *err)
{
    json_t *shown = NULL;

    return inside_plan(engine, req, &shown, err) < 0 ? -1 : text_give(shown, json, err);
}
