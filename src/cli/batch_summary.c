/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch_summary.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/batch_jobs.h"
#include "cli/print.h"

AUTO(summary_request, struct vial_request, vial_request_free)
#define auto_summary_request __attribute__((cleanup(auto_summary_request_)))

static json_t *host_json(void)
{
    struct utsname name = { 0 };
    json_int_t pages = (json_int_t)sysconf(_SC_PHYS_PAGES);

    (void)uname(&name);
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "system", name.sysname, "release",
                     name.release, "machine", name.machine, "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory_bytes",
                     pages * (json_int_t)sysconf(_SC_PAGESIZE));
}

static json_t *places_json(const struct batch_places *p)
{
    json_t *names = json_array();

    for (size_t i = 0; i < p->count; i++)
        (void)json_array_append_new(names, json_string(batch_places_name(p, i)));
    return names;
}

/* The limits of a row that says nothing itself, as the plan of one has them. */
static json_t *limits_json(const struct batch_summary *where)
{
    auto_summary_request struct vial_request *req = NULL;
    auto_json json_t *plan = NULL;
    struct vial_error ignored = { 0 };

    if (batch_jobs_sample(where->usual, &req) < 0)
        return json_null();
    if (where->places)
        (void)batch_places_plan(where->places, req, where->cancel_fd, &plan);
    else
        (void)inside_plan(where->engine, req, &plan, &ignored);
    plan = plan ? plan : json_null();
    return json_is_object(json_object_get(plan, "limits"))
               ? json_incref(json_object_get(plan, "limits"))
               : json_null();
}

static bool is_called(json_t *language, const char *name)
{
    const char *own = json_string_value(json_object_get(language, "name"));
    json_t *alias;
    size_t i;
    bool found = own && strcmp(own, name) == 0;

    json_array_foreach(json_object_get(language, "aliases"), i, alias)
    {
        found = found ||
                (json_is_string(alias) && strcmp(json_string_value(alias), name) == 0);
    }
    return found;
}

static json_t *version_there(json_t *all, const char *name)
{
    json_t *language;
    size_t i;

    json_array_foreach(all, i, language)
    {
        if (is_called(language, name))
            return json_incref(json_object_get(language, "version"));
    }
    return NULL;
}

static json_t *version_here(struct vial_engine *engine, const char *name)
{
    auto_free char *version = inside_language_version(engine, name);

    return version ? json_string(version) : NULL;
}

/* What those that rows were in say of themselves; null: nothing. */
static json_t *languages_json(const struct batch_summary *where, json_t *used)
{
    auto_json json_t *all = NULL;
    json_t *versions = json_object();

    if (where->places && json_object_size(used) > 0)
        (void)batch_places_ask(where->places, "/v1/languages", NULL, where->cancel_fd,
                               &all);
    for (void *at = json_object_iter(used); at; at = json_object_iter_next(used, at)) {
        const char *name = json_object_iter_key(at);
        json_t *version = where->places ? version_there(all, name)
                                        : version_here(where->engine, name);

        (void)json_object_set_new(versions, name, version ? version : json_null());
    }
    return versions;
}

json_t *batch_summary_json(struct tally *t, const struct batch_summary *where)
{
    json_t *s = tally_json(t);

    if (!s)
        return NULL;
    (void)json_object_set_new(s, "input_sha256",
                              where->input_sha256[0] ? json_string(where->input_sha256)
                                                     : json_null());
    (void)json_object_set_new(s, "jobs", json_integer(where->jobs));
    (void)json_object_set_new(s, "host", host_json());
    (void)json_object_set_new(
        s, "daemons", where->places ? places_json(where->places) : json_array());
    (void)json_object_set_new(s, "languages", languages_json(where, t->languages));
    (void)json_object_set_new(s, "limits", limits_json(where));
    return s;
}

static void show_numbers(json_t *object)
{
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        say("  %-12s %.6g", json_object_iter_key(at),
            json_number_value(json_object_iter_value(at)));
}

void batch_summary_show(struct tally *t)
{
    auto_json json_t *s = tally_json(t);

    say("%lld rows, %lld passed, in %.1f s (%.1f a second); median %.1f ms, 95 %% "
        "within %.1f ms, processor %.1f s",
        json_integer_value(json_object_get(s, "rows")),
        json_integer_value(json_object_get(s, "passed")),
        json_real_value(json_object_get(s, "seconds")),
        json_real_value(json_object_get(s, "rows_per_second")),
        json_real_value(json_object_get(s, "median_ms")),
        json_real_value(json_object_get(s, "p95_ms")),
        json_real_value(json_object_get(s, "cpu_seconds")));
    show_numbers(json_object_get(s, "verdicts"));
    show_numbers(json_object_get(s, "pass_at"));
}
