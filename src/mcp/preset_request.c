/* SPDX-License-Identifier: Apache-2.0 */

/* From the arguments of a preset's tool to a request. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/state.h"
#include "base/str.h"
#include "mcp/preset.h"
#include "mcp/tools.h"
#include "model/request.h"
#include "settings/project.h"

const json_t *preset_value(const struct preset_job *job, const char *part)
{
    json_t *parameters = json_object_get(job->tool->tool, "parameters");

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        const json_t *one = json_object_iter_value(at);
        const json_t *given =
            json_object_get(job->call->arguments, json_object_iter_key(at));

        if (str_eq(preset_text(one, "part"), part))
            return given ? given : json_object_get(one, "default");
    }
    return NULL;
}

const char *preset_part(const struct preset_job *job, const char *part)
{
    return json_string_value(preset_value(job, part));
}

/* Files have the mode that the parameter says; nobody else names one. */
static json_t *with_mode(json_t *files, const char *mode)
{
    json_t *copy = json_deep_copy(files);

    for (size_t i = 0; mode && i < json_array_size(copy); i++)
        (void)json_object_set_new(json_array_get(copy, i), "mode", json_string(mode));
    return copy;
}

/* A list, in the form that every request has it in. */
static int set_list(struct vial_request *req, const json_t *parameter, json_t *value,
                    struct vial_error *err)
{
    json_t *list = with_mode(value, preset_text(parameter, "mode"));
    auto_json json_t *whole = json_pack("{s:o}", preset_text(parameter, "field"), list);
    auto_ask struct vial_request *part = NULL;

    if (!whole)
        return fail_memory(err);
    if (vial_request_new(&part, err) < 0 ||
        request_decode(part, whole, 0, "request", err) < 0)
        return -1;
    return request_fill(req, part, err);
}

/* An argument as text: "{}s" makes seconds of a number. */
static int set_argument(struct vial_request *req, const json_t *parameter,
                        const json_t *value, struct vial_error *err)
{
    const char *form = preset_text(parameter, "form");
    const char *hole = form ? strstr(form, "{}") : NULL;
    const char *field = preset_text(parameter, "field");
    auto_str struct str text = { 0 };

    if (hole)
        str_add(&text, form, (size_t)(hole - form));
    if (json_is_string(value))
        str_add(&text, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        str_printf(&text, "%lld", (long long)json_integer_value(value));
    else
        str_printf(&text, "%g", json_number_value(value));
    if (hole)
        str_puts(&text, hole + 2);
    if (!str_ok(&text))
        return fail_memory(err);
    if (str_eq(field, "code") || str_eq(field, "stdin"))
        return vial_request_set_bytes(req, field, text.data ? text.data : "", text.len,
                                      err);
    return vial_request_set(req, field, text.data ? text.data : "", err);
}

static int set_arguments(const struct preset_job *job, struct vial_request *req,
                         struct vial_error *err)
{
    json_t *parameters = json_object_get(job->tool->tool, "parameters");
    json_t *set = json_object_get(job->tool->tool, "set");

    for (void *at = json_object_iter(set); at; at = json_object_iter_next(set, at))
        if (vial_request_set(req, json_object_iter_key(at),
                             json_string_value(json_object_iter_value(at)), err) < 0)
            return -1;
    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        const json_t *one = json_object_iter_value(at);
        json_t *value = json_object_get(job->call->arguments, json_object_iter_key(at));

        if (json_is_array(value) ? set_list(req, one, value, err) < 0
                                 : value && preset_text(one, "field") &&
                                       set_argument(req, one, value, err) < 0)
            return -1;
    }
    return 0;
}

/* Enough bytes for as many characters as the answer shows. */
static int set_output(const struct preset_job *job, struct vial_request *req,
                      struct vial_error *err)
{
    size_t limit = preset_limit(job);
    char bytes[32];

    if (limit == 0)
        return 0;
    (void)snprintf(bytes, sizeof bytes, "%zu", limit * 4);
    return vial_request_set(req, "output_limit", bytes, err);
}

/* The repository that the server was started in, if it was in one. */
static int set_repository(const struct preset_job *job, struct vial_request *req,
                          struct vial_error *err)
{
    auto_free char *here = getcwd(NULL, 0);
    auto_free char *root = NULL;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
    auto_free char *state = state_path(getenv("HOME"));
    size_t len = 0;
    const char *inside = NULL;

    if (!here || !json_is_true(json_object_get(job->tool->tool, "repository")))
        return 0;
    if (repository_find(here, state, &len, err) < 0)
        return -1;
    if (len == 0)
        return 0;
    root = strndup(here, len);
    if (!root)
        return fail_memory(err);
    inside = here + len;
    inside += strspn(inside, "/");
    if (vial_request_set(req, "workspace", root, err) < 0)
        return -1;
    return *inside ? vial_request_set(req, "cwd", inside, err) : 0;
}

int preset_request(const struct preset_job *job, struct vial_request **out,
                   struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;
    const char *line = preset_part(job, "shell");
    const char *does = preset_text(job->tool->tool, "does");
    bool runs = str_eq(does, "run") || str_eq(does, "exec");

    if (vial_request_new(&req, err) < 0 || set_arguments(job, req, err) < 0)
        return -1;
    if (runs && line &&
        (vial_request_set(req, "command", "sh", err) < 0 ||
         vial_request_set(req, "command", "-c", err) < 0 ||
         vial_request_set(req, "command", line, err) < 0))
        return -1;
    if (runs && (set_output(job, req, err) < 0 || set_repository(job, req, err) < 0))
        return -1;
    *out = ptr_take(&req);
    return 0;
}
