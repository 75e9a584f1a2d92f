/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "base/json.h"
#include "base/owner.h"
#include "driver/docker/containers.h"
#include "driver/e2b/answers.h"
#include "driver/e2b/ask_service.h"
#include "model/vessel_list.h"

static const char *text_of(json_t *sandbox, const char *key)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(sandbox, "metadata"), key));

    return text && *text ? text : NULL;
}

/* Of another host, or an earlier boot, nobody can tell: its lease ends it. */
static bool is_orphan(json_t *sandbox)
{
    const char *owner = text_of(sandbox, E2B_OWNER);
    char own[CONTAINERS_HOST];

    containers_host(own);
    return owner && own[0] && str_eq(text_of(sandbox, E2B_HOST), own) &&
           owner_is_dead(owner);
}

static int ask_list(const struct e2b_endpoint *e, int cancel_fd, json_t **out,
                    struct vial_error *err)
{
    const struct e2b_way way = { &e->api, 0, cancel_fd, 0 };
    auto_e2b_call struct e2b_call call;

    e2b_call_list(&call, e);
    return e2b_do(&call, &way, out, err);
}

/* A service that ignores the filter gives all that the key has; a stranger's is not
 * ours to end. */
static bool is_ours(json_t *sandbox, char id[E2B_ID + 1])
{
    return str_eq(text_of(sandbox, E2B_MANAGED), "vessel") &&
           e2b_read_id(sandbox, id, NULL) == 0;
}

static int add(struct vial_vessels *list, json_t *sandbox, const char *id)
{
    const struct vial_vessel v = {
        .driver = "e2b",
        .id = id,
        .name = id,
        .vessel = text_of(sandbox, E2B_VESSEL),
        .session = text_of(sandbox, E2B_SESSION),
        .task = text_of(sandbox, E2B_TASK),
        .image = json_string_value(json_object_get(sandbox, "templateID")),
        .state = json_string_value(json_object_get(sandbox, "state")),
        .orphan = is_orphan(sandbox),
    };

    return vessels_add(list, &v);
}

int e2b_list(const struct e2b_endpoint *e, struct vial_vessels *list,
             struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *sandbox = NULL;
    char id[E2B_ID + 1];
    size_t i = 0;

    if (ask_list(e, -1, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, sandbox)
    {
        if (is_ours(sandbox, id) && add(list, sandbox, id) < 0)
            return fail_memory(err);
    }
    return 0;
}

int e2b_sweep(const struct e2b_endpoint *e, int cancel_fd, unsigned *removed,
              struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *sandbox = NULL;
    char id[E2B_ID + 1];
    size_t i = 0;
    int rc = 0;

    if (ask_list(e, cancel_fd, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, sandbox)
    {
        if (rc < 0 || !is_ours(sandbox, id) || !is_orphan(sandbox))
            continue;
        rc = e2b_end(e, id, cancel_fd, err);
        *removed += rc == 0;
    }
    return rc < 0 ? -1 : 0;
}
