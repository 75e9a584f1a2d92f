/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/image.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

#define PRUNE_MS       120000
#define CHECK_REGISTRY "check the name, and that the registry can be reached"

static int bad_name(const char *text, struct vial_error *err)
{
    (void)fail(err, VIAL_E_IMAGE, "'%s' is not the name of an image", text);
    return fail_remedy(err, "write 'name', 'name:tag' or 'name@sha256:' and 64 digits");
}

static bool is_digest(const char *text)
{
    return str_starts(text, "sha256:") && strlen(text) == 7 + 64 &&
           strspn(text + 7, "0123456789abcdef") == 64;
}

static bool is_plain(const char *text, const char *others)
{
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;

        if (c >= 128 || (!isalnum(c) && !strchr(others, c)))
            return false;
    }
    return text[0] != '\0' && isalnum((unsigned char)text[0]);
}

int image_parse(const char *text, struct image_name *out, struct vial_error *err)
{
    const char *at = strchr(text, '@');
    const char *slash = strrchr(text, '/');
    const char *colon = strrchr(slash ? slash : text, ':');
    const char *cut = at ? at : colon;
    size_t len = cut ? (size_t)(cut - text) : strlen(text);

    *out = (struct image_name){ .pinned = at != NULL, .tag = "latest" };
    if (len == 0 || len >= sizeof(out->name) ||
        (cut && strlen(cut + 1) >= sizeof(out->tag)))
        return bad_name(text, err);
    memcpy(out->name, text, len);
    if (cut)
        (void)snprintf(out->tag, sizeof(out->tag), "%s", cut + 1);
    if (!is_plain(out->name, "._-/:") ||
        (at ? !is_digest(out->tag) : !is_plain(out->tag, "._-")))
        return bad_name(text, err);
    return 0;
}

/* A pull while it happens: one JSON object a line. */
struct pulling {
    const struct vial_pull *pull;
    struct str line;
};

static int say_trouble(const struct vial_pull *pull, const char *what,
                       struct vial_error *err)
{
    bool full = strstr(what, "no space left") != NULL;

    (void)fail(err, full ? VIAL_E_ENGINE_SPACE : VIAL_E_PULL, "pull image '%s'",
               pull->name);
    (void)fail_cause(err, "%.180s", what);
    if (full)
        return fail_remedy(err, "run 'vial image prune', or free space in the engine's "
                                "data directory");
    return fail_remedy(err, CHECK_REGISTRY);
}

static int report(const struct vial_pull *pull, json_t *event, struct vial_error *err)
{
    json_t *detail = json_object_get(event, "progressDetail");
    json_t *trouble = json_object_get(event, "error");
    const char *layer = json_string_value(json_object_get(event, "id"));
    const char *status = json_string_value(json_object_get(event, "status"));
    json_int_t current = json_integer_value(json_object_get(detail, "current"));
    json_int_t total = json_integer_value(json_object_get(detail, "total"));

    if (json_is_string(trouble))
        return say_trouble(pull, json_string_value(trouble), err);
    if (!pull->progress || !status)
        return 0;
    if (pull->progress(pull->context, layer ? layer : "", status,
                       (unsigned long long)(current > 0 ? current : 0),
                       (unsigned long long)(total > 0 ? total : 0)) == 0)
        return 0;
    return fail(err, VIAL_E_CANCELLED, "the caller cancelled the pull");
}

static int take_line(struct pulling *p, struct vial_error *err)
{
    auto_json json_t *event = NULL;
    size_t len = p->line.len;

    p->line.len = 0;
    while (len > 0 && isspace((unsigned char)p->line.data[len - 1]))
        len--;
    if (len == 0)
        return 0;
    if (json_parse(p->line.data, len, "the engine's progress", &event, err) < 0)
        return fail_as(err, VIAL_E_ENGINE_API);
    return report(p->pull, event, err);
}

static int take(void *context, const char *data, size_t len, struct vial_error *err)
{
    struct pulling *p = context;

    for (size_t i = 0; i < len; i++) {
        str_putc(&p->line, data[i]);
        if (p->line.len > HTTP_BODY_MAX)
            return fail(err, VIAL_E_ENGINE_API, "pull: a line is too long");
        if (data[i] == '\n' && take_line(p, err) < 0)
            return -1;
    }
    return str_ok(&p->line) ? 0 : fail_memory(err);
}

static int run_pull(const struct api *api, const struct vial_pull *pull,
                    const char *target, struct vial_error *err)
{
    auto_answer struct http_answer answer = { 0 };
    struct pulling p = { .pull = pull };
    struct http_request request = { .method = "POST",
                                    .target = target,
                                    .timeout_ms = pull->timeout_ms,
                                    .cancel_fd = pull->cancel_fd };
    int rc = http_stream(&api->transport, &request, take, &p, &answer, err);

    if (rc == 0)
        rc = take_line(&p, err);
    else
        (void)api_advise(api, err);
    str_done(&p.line);
    if (rc < 0)
        return -1;
    if (answer.status < 300)
        return 0;
    (void)fail(err, VIAL_E_PULL, "pull image '%s'", pull->name);
    api_cause(answer.body.data, answer.body.len, err);
    return fail_remedy(err, CHECK_REGISTRY);
}

static json_t *describe(json_t *image)
{
    return json_pack("{s:O?, s:O?, s:O?, s:O?}", "id", json_object_get(image, "Id"),
                     "tags", json_object_get(image, "RepoTags"), "digests",
                     json_object_get(image, "RepoDigests"), "size",
                     json_object_get(image, "Size"));
}

static bool has_digest(json_t *image, const char *digest)
{
    json_t *list = json_object_get(image, "RepoDigests");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        const char *at =
            json_is_string(item) ? strchr(json_string_value(item), '@') : NULL;

        if (at && str_eq(at + 1, digest))
            return true;
    }
    return false;
}

static int verify(const struct api *api, const char *text,
                  const struct image_name *name, json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_json json_t *image = NULL;
    struct api_call call = { .method = "GET",
                             .about = "look at the image",
                             .object = text };

    /* Slashes stay: the engine takes the rest of the path as the name. */
    str_printf(&target, "/images/%s%c%s/json", name->name, name->pinned ? '@' : ':',
               name->tag);
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, &image, err) < 0)
        return -1;
    if (name->pinned && !has_digest(image, name->tag))
        return fail(err, VIAL_E_PULL, "image '%s' came with another digest", text);
    *out = describe(image);
    return *out ? 0 : fail_memory(err);
}

int image_pull(const struct api *api, const struct vial_pull *pull, json_t **out,
               struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct image_name name;

    if (image_parse(pull->name, &name, err) < 0)
        return -1;
    str_puts(&target, "/images/create?fromImage=");
    http_escape(&target, name.name);
    str_puts(&target, "&tag=");
    http_escape(&target, name.tag);
    if (!str_ok(&target))
        return fail_memory(err);
    if (run_pull(api, pull, target.data, err) < 0)
        return -1;
    return verify(api, pull->name, &name, out, err);
}

int image_list(const struct api *api, json_t **out, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_json json_t *list = json_array();
    struct api_call call = { .method = "GET",
                             .target = "/images/json",
                             .about = "list the images" };
    json_t *image = NULL;
    size_t i = 0;

    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, image)
    {
        if (json_array_append_new(list, describe(image)) < 0)
            return fail_memory(err);
    }
    *out = ptr_take(&list);
    return 0;
}

int image_prune(const struct api *api, bool all, json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_json json_t *answer = NULL;
    struct api_call call = { .method = "POST",
                             .timeout_ms = PRUNE_MS,
                             .about = "remove old images" };

    str_puts(&target, "/images/prune?filters=");
    http_escape(&target,
                all ? "{\"dangling\":[\"false\"]}" : "{\"dangling\":[\"true\"]}");
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    *out = json_pack("{s:i, s:O?}", "removed",
                     (int)json_array_size(json_object_get(answer, "ImagesDeleted")),
                     "freed_bytes", json_object_get(answer, "SpaceReclaimed"));
    return *out ? 0 : fail_memory(err);
}
