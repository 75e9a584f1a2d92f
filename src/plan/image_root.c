/* SPDX-License-Identifier: Apache-2.0 */

/* Plans a root that is an image unpacked on this host, what programs may do to it, and
 * who they are in there. */

#include <string.h>

#include "base/fail.h"
#include "images/store.h"
#include "plan/draft.h"

static bool is_choice(const struct draft *d, enum field_id id, const char *word)
{
    char name[32];

    request_choice(d->req, id, name);
    return str_eq(name, word);
}

static bool is_own(const struct draft *d, enum field_id id)
{
    return (d->req->own >> id) & 1u;
}

/* What merely stands among the settings waits for vessels that can have it. */
static int refuse_asked(const struct draft *d, enum field_id id, const char *what,
                        struct vial_error *err)
{
    if (!is_own(d, id))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot give the program %s",
               d->driver->name, what);
    return fail_remedy(err, "use driver native with an image ('--image NAME'), or "
                            "leave it out");
}

static int refuse_all(const struct draft *d, struct vial_error *err)
{
    if (is_choice(d, FIELD_ID_root_mode, "rw") &&
        refuse_asked(d, FIELD_ID_root_mode,
                     d->plan->image ? "a writable root"
                                    : "a writable root without an image",
                     err) < 0)
        return -1;
    if (is_choice(d, FIELD_ID_sudo, "nopasswd"))
        return refuse_asked(d, FIELD_ID_sudo,
                            d->plan->image ? "sudo" : "sudo without an image", err);
    return 0;
}

/* In a root that cannot be changed there is nothing for root to do. */
static int check_whole(const struct plan_root *root, struct vial_error *err)
{
    if (root->writable || (!root->as_root && !root->sudo))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "%s is given, but the root is read-only",
               root->sudo ? "sudo" : "user 'root'");
    return fail_remedy(err, "add '--root-mode rw', or leave it out");
}

static int check_allowed(const struct draft *d, struct vial_error *err)
{
    const struct plan_root *root = &d->plan->root;
    const struct {
        bool wanted;
        const char *name;
    } rows[] = { { root->writable, "rw" },
                 { root->as_root, "root" },
                 { root->sudo, "sudo" } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].wanted &&
            policy_check_list(&d->settings->policy, POLICY_ID_privileges, "privilege",
                              rows[i].name, err) < 0)
            return -1;
    return 0;
}

int image_root_build(struct draft *d, struct vial_error *err)
{
    struct plan_root *root = &d->plan->root;

    if (plan_wants_entrypoint(d->req) && !d->plan->image) {
        (void)fail(err, VIAL_E_USAGE,
                   "the entrypoint of an image is to run, and there "
                   "is no image");
        return fail_remedy(err, "name one: '--image NAME'");
    }
    if (!d->driver->roots || !d->plan->image)
        return refuse_all(d, err);
    if (d->req->rootfs) {
        (void)fail(err, VIAL_E_USAGE, "both an image and a rootfs are given");
        return fail_remedy(err, "give one of them");
    }
    root->store = store_path(d->settings->image_store.store, d->settings->home);
    if (!root->store)
        return fail_memory(err);
    root->writable = is_choice(d, FIELD_ID_root_mode, "rw");
    root->as_root = str_eq(d->req->user, "root") || str_eq(d->req->user, "0") ||
                    str_eq(d->req->user, "0:0");
    root->sudo = is_choice(d, FIELD_ID_sudo, "nopasswd");
    return check_whole(root, err) < 0 ? -1 : check_allowed(d, err);
}
