/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/sys.h"
#include "model/value.h"
#include "plan/command_programs.h"
#include "plan/draft.h"
#include "plan/gate_rules.h"

#define HOSTNAME "vial"

static_assert(NETWORK_NONE == 0 && NETWORK_BRIDGE == 1 && NETWORK_GATE == 2,
              "the order of fields.def");
static_assert(PULL_MISSING == 0 && PULL_ALWAYS == 1 && PULL_NEVER == 2, "the same");
static_assert(KEEP_HEAD == 0 && KEEP_TAIL == 1 && KEEP_BOTH == 2, "the same");

bool plan_wants_entrypoint(const struct vial_request *req)
{
    char name[32];

    request_choice(req, FIELD_ID_entrypoint, name);
    return str_eq(name, "image");
}

/* Exactly one of code and command, which an image may have. */
static int check_what(const struct vial_request *req, struct vial_error *err)
{
    bool image = plan_wants_entrypoint(req);
    bool code = request_has(req, code) || request_has(req, language);
    bool command = req->command.count > 0 || (image && !code);

    if (image && code) {
        (void)fail(err, VIAL_E_USAGE, "code is given, and the image's entrypoint");
        return fail_remedy(err, "leave out 'entrypoint', or give a command");
    }

    if (command && code) {
        (void)fail(err, VIAL_E_USAGE, "both code and a command are given");
        return fail_remedy(err, "give language and code, or command, not both");
    }
    if (!command && !code) {
        (void)fail(err, VIAL_E_USAGE, "nothing to run: neither code nor a command");
        return fail_remedy(err, "give language and code, or command");
    }
    if (command && req->args.count > 0) {
        (void)fail(err, VIAL_E_USAGE, "args are given beside a command");
        return fail_remedy(err, "put them into the command itself");
    }
    if (code && !request_has(req, language)) {
        (void)fail(err, VIAL_E_USAGE, "code is given without its language");
        return fail_remedy(err, "name one; `vial languages` lists them");
    }
    if (code && !request_has(req, code))
        return fail(err, VIAL_E_USAGE, "language '%s' is given without code",
                    req->language);
    return 0;
}

/* An operator may list a language under any of its names. */
static int check_language(const struct policy *p, const struct language *language,
                          struct vial_error *err)
{
    if (policy_check_list(p, POLICY_ID_languages, "language", language->name, err) == 0)
        return 0;
    for (size_t i = 0; i < language->aliases.count; i++)
        if (strv_has(&p->languages, language->aliases.items[i]))
            return 0;
    return -1;
}

static int choose_language(struct draft *d, struct vial_error *err)
{
    const struct policy *policy = &d->settings->policy;

    if (!request_has(d->req, language))
        return policy_check_list(policy, POLICY_ID_languages, "language", "command",
                                 err);
    if (language_find(&d->settings->languages, d->req->language, &d->language, err) < 0)
        return -1;
    return check_language(policy, d->language, err);
}

#define COMMAND_IMAGE "debian:12-slim" /* for a command, which has no language */

/* The image that the settings have for NAME, or NULL. */
static const char *image_named(const struct strv *images, const char *name, size_t len)
{
    for (size_t i = 0; i < images->count; i++)
        if (strncmp(images->items[i], name, len) == 0 && images->items[i][len] == '=')
            return images->items[i] + len + 1;
    return NULL;
}

static bool has_command(const struct language *l, const char *word, size_t len)
{
    for (size_t i = 0; i < l->commands.count; i++)
        if (strlen(l->commands.items[i]) == len &&
            strncmp(l->commands.items[i], word, len) == 0)
            return true;
    return false;
}

/* Returns the image that a program of this name needs, or NULL. */
static const char *program_image(const void *context, const char *word, size_t len)
{
    const struct settings *s = context;
    const char *image = image_named(&s->images, word, len);

    for (size_t i = 0; !image && i < s->languages.count; i++) {
        const struct language *l = &s->languages.items[i];

        if (!has_command(l, word, len))
            continue;
        image = image_named(&s->images, l->name, strlen(l->name));
        image = image ? image : l->image;
    }
    return image;
}

/* The first program of it that tells something decides: others, like cd, are in every
 * image. */
static const char *command_image(const struct draft *d)
{
    const char *image =
        command_programs_search(&d->req->command, program_image, d->settings);

    return image ? image : COMMAND_IMAGE;
}

static const char *language_image(const struct draft *d)
{
    const char *name = d->language->name;
    const char *image = image_named(&d->settings->images, name, strlen(name));

    return image ? image : d->language->image;
}

/* An image among the settings is there for the drivers that use one. Under a preset it
 * is for those that must have one: its programs may be this host's own. An image that a
 * request names must not be ignored. */
static bool is_wanted(const struct draft *d)
{
    if (!str_eq(d->req->image, d->settings->defaults.image))
        return true;
    return d->driver->roots && !d->settings->preset;
}

static int choose_image(const struct draft *d, const char **out, struct vial_error *err)
{
    const char *asked = d->req->image;

    if (!d->driver->contains && (!asked || !is_wanted(d)))
        return 0;
    if (!d->driver->contains && !d->driver->roots) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' uses no image",
                   d->driver->name);
        return fail_remedy(err, "choose driver docker, or leave out the image");
    }
    *out = asked ? asked : d->language ? language_image(d) : command_image(d);
    if (!*out)
        return 0;
    return policy_check_list(&d->settings->policy, POLICY_ID_images, "image", *out,
                             err);
}

static const char *choose_seccomp(const struct draft *d)
{
    if (d->req->seccomp)
        return d->req->seccomp;
    return d->language && d->language->seccomp ? d->language->seccomp : "default";
}

/* It becomes a file's name. */
static int check_seccomp(const char *name, struct vial_error *err)
{
    if (name[0] != '.' && !str_eq(name, PLAN_MACHINE_PROFILE) &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789._-") == strlen(name))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "seccomp '%s' is not a profile's name", name);
    return fail_remedy(err, "use letters, digits, '.', '_' and '-'; 'default' is one");
}

static int put_string(char **out, const char *value, struct vial_error *err)
{
    *out = value ? strdup(value) : NULL;
    return value && !*out ? fail_memory(err) : 0;
}

/* The administrator's own profile stands before any that the request asks for. */
static int custom_build(struct draft *d, struct vial_error *err)
{
    const struct language *l = d->language;
    struct plan *plan = d->plan;

    if (!l || !l->seccomp_file)
        return 0;
    if (!l->custom.filter.len)
        return fail(err, VIAL_E_INTERNAL, "seccomp profile '%s' was not compiled",
                    l->seccomp_file);
    memcpy(plan->custom.sha256, l->custom.sha256, sizeof(plan->custom.sha256));
    plan->custom.rules = l->custom.rules;
    if (blob_set(&plan->custom.filter, l->custom.filter.data, l->custom.filter.len) < 0)
        return fail_memory(err);
    return put_string(&plan->seccomp_file, l->seccomp_file, err);
}

static int names_build(struct draft *d, struct vial_error *err)
{
    const char *driver = d->driver->name;
    struct plan *plan = d->plan;
    const char *image = NULL;

    if (policy_check_list(&d->settings->policy, POLICY_ID_drivers, "driver", driver,
                          err) < 0 ||
        choose_image(d, &image, err) < 0 || check_seccomp(choose_seccomp(d), err) < 0)
        return -1;
    if (put_string(&plan->driver, driver, err) < 0 ||
        put_string(&plan->language, d->language ? d->language->name : NULL, err) < 0 ||
        put_string(&plan->image, image, err) < 0 ||
        put_string(&plan->seccomp, choose_seccomp(d), err) < 0 ||
        put_string(&plan->hostname, HOSTNAME, err) < 0 ||
        put_string(&plan->label_session, d->req->session, err) < 0)
        return -1;
    return put_string(&plan->label_task, d->req->task, err);
}

static void add_missing(struct strv *to, const struct strv *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!strv_has(to, from->items[i]))
            strv_push(to, from->items[i]);
}

/* A language may have a network of its own, or none, unless the request says. */
static int network_build(struct draft *d, struct vial_error *err)
{
    const struct policy *policy = &d->settings->policy;
    const char *own = d->language ? d->language->network : NULL;
    char asked[32];

    d->plan->network = (enum plan_network)d->req->network;
    request_choice(d->req, FIELD_ID_network, asked);
    if (own && !((d->req->own >> FIELD_ID_network) & 1u)) {
        d->plan->network = (enum plan_network)value_choice(
            fields[FIELD_ID_network].choices, own, strlen(own));
        (void)snprintf(asked, sizeof asked, "%s", own);
    }
    if (!asked[0] ||
        (str_eq(own, asked) && strv_has(&policy->networks, POLICY_BY_LANGUAGE)))
        return 0;
    return policy_check_list(policy, POLICY_ID_networks, "network", asked, err);
}

/* Fixed ones cost a wall that programs have of their own, inside the vessel. */
static int addresses_build(struct draft *d, struct vial_error *err)
{
    d->plan->fixed_addresses = request_has(d->req, addresses) && d->req->addresses == 1;
    return d->plan->fixed_addresses
               ? policy_check_list(&d->settings->policy, POLICY_ID_privileges,
                                   "privilege", "addresses", err)
               : 0;
}

static int rules_build(struct draft *d, struct vial_error *err)
{
    struct plan *plan = d->plan;

    if (network_build(d, err) < 0 || addresses_build(d, err) < 0 ||
        put_string(&plan->output_note, d->req->output_note, err) < 0)
        return -1;
    plan->stream_limited =
        ((d->req->own >> FIELD_ID_output_limit) & 1u) ||
        !str_starts(d->settings->origin[FIELD_ID_output_limit], "built-in");
    plan->stop_ms = request_amount(d->req, FIELD_ID_stop_grace);
    plan->count_denied = request_has(d->req, denials) && d->req->denials == 1;
    plan->keep = request_has(d->req, output_keep) ? (enum plan_keep)d->req->output_keep
                                                  : KEEP_BOTH;
    add_missing(&plan->require, &d->req->require);
    add_missing(&plan->require, &d->settings->policy.require);
    add_missing(&plan->end_on, &d->req->end_on);
    return strv_ok(&plan->require) && strv_ok(&plan->end_on) ? 0 : fail_memory(err);
}

int plan_build(const struct vial_request *req, const struct settings *settings,
               const struct plan_driver *driver, struct plan **out,
               struct vial_error *err)
{
    auto_plan struct plan *plan = calloc(1, sizeof(*plan));
    struct draft d = {
        .req = req, .settings = settings, .driver = driver, .plan = plan
    };

    if (!plan)
        return fail_memory(err);
    sys_make_id_on(serve_settings_node(&settings->serve), 'r', plan->id);
    if (check_what(req, err) < 0 || choose_language(&d, err) < 0 ||
        names_build(&d, err) < 0 || image_root_build(&d, err) < 0 ||
        custom_build(&d, err) < 0 || rules_build(&d, err) < 0 ||
        gate_build(&d, err) < 0 || plan_cwd_build(&d, err) < 0 ||
        plan_program_build(&d, err) < 0 || plan_limits_build(&d, err) < 0 ||
        plan_files_build(&d, err) < 0 || mount_build(&d, err) < 0 ||
        venv_build(&d, err) < 0 || language_cache_build(&d, err) < 0 ||
        packages_build(&d, err) < 0 || labels_build(&d, err) < 0 ||
        contain_build(&d, err) < 0)
        return -1;
    *out = ptr_take(&plan);
    return 0;
}
