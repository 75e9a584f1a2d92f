/* SPDX-License-Identifier: Apache-2.0 */

/* Templates: those that the operator names, and those that callers have built. */

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "e2b/control.h"

static bool is_operators(const struct ask *a, const char *name)
{
    const char *image;

    return template_find(a->turn->settings, name, &image);
}

void control_template_alias(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    bool found = is_operators(a, a->arg);

    if (!found && saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    if (found || saved_find(&all, a->arg))
        ask_json(a, 200, json_pack("{s:s, s:b}", "templateID", a->arg, "public", 0));
    else
        ask_refuse(a, 404, "template '%s' not found", a->arg);
}

/* All builds of a template go with its name; of "name:tag" the one. */
void control_template_delete(struct ask *a)
{
    auto_saved_list struct saved_list all = { 0 };
    struct vial_error err = { 0 };
    const struct saved *first;

    if (is_operators(a, a->arg)) {
        ask_refuse(a, 403, "template '%s' is the operator's", a->arg);
        return;
    }
    if (saved_read(a->turn->engine, a->owner.name, &all, &err) < 0) {
        ask_error(a, &err);
        return;
    }
    first = saved_find_any(&all, a->arg);
    if (!first) {
        ask_refuse(a, 404, "template '%s' not found", a->arg);
        return;
    }
    for (size_t i = 0; i < all.count && !err.code[0]; i++)
        if (&all.items[i] == first || saved_is_named(&all.items[i], a->arg))
            (void)!inside_snapshot_remove(a->turn->engine, a->owner.name,
                                          all.items[i].image, &err);
    if (fail_is(&err, VIAL_E_BUSY))
        ask_refuse(a, 409, "'%s' is used by a sandbox; kill that before", a->arg);
    else if (err.code[0])
        ask_error(a, &err);
    else
        ask_done(a);
}
