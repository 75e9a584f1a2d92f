/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "model/request.h"
#include "model/value.h"

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
    struct shown shown;

    if (!f) {
        const char *near = text_suggest(field, field_names);

        shown = value_show(field, strlen(field));
        (void)fail(err, VIAL_E_FIELD, "unknown field '%s' in request", shown.text);
        return near ? fail_remedy(err, "did you mean '%s'?", near) : -1;
    }
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
