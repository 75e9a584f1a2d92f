/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/network.h"

#include "base/fail.h"
#include "base/json.h"

static int missing(const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_ENGINE_NETWORK, "there is no network '%s'", name);
    return fail_remedy(err, "make it with 'docker network create %s'", name);
}

/* By its whole name, as ids and their beginnings are taken too; and of a kind in
 * which containers have an interface of their own behind a bridge. */
static int judge(json_t *network, const char *name, struct vial_error *err)
{
    const char *real = json_string_value(json_object_get(network, "Name"));
    const char *driver = json_string_value(json_object_get(network, "Driver"));

    if (!str_eq(real, name))
        return missing(name, err);
    if (str_eq(driver, "bridge") || str_eq(driver, "overlay"))
        return 0;
    (void)fail(err, VIAL_E_ENGINE_NETWORK,
               "network '%s' is of kind '%.40s', which leads to the host or its "
               "neighbours",
               name, driver ? driver : "");
    return fail_remedy(err, "join one of kind bridge or overlay");
}

int network_check(const struct api *api, const struct plan *plan,
                  struct vial_error *err)
{
    const char *name = plan->container.network_name;
    auto_str struct str target = { 0 };
    auto_json json_t *network = NULL;
    struct api_call call = { .method = "GET",
                             .about = "look at the network",
                             .object = name };

    if (plan->network == NETWORK_NONE || !name)
        return 0;
    str_puts(&target, "/networks/");
    http_escape(&target, name);
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, &network, err) == 0)
        return judge(network, name, err);
    if (err && str_eq(err->code, fail_code_text(VIAL_E_ENGINE_NETWORK)))
        return missing(name, err);
    return -1;
}
