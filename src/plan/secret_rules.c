/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/secret_rules.h"

#include <string.h>

#include "base/fail.h"
#include "model/secret.h"
#include "plan/draft.h"

static int refuse(const char *entry, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_VALUE, "'%.80s' is not a secret: %s", entry, why);
    return fail_remedy(err, "write NAME of the settings' block 'secrets', or "
                            "NAME=env:VARIABLE@HOST or NAME=file:/PATH@HOST");
}

/* Who serves others decides for them: what they may use, and where it is read. */
static int check_policy(const struct settings *s, const char *name,
                        struct vial_error *err)
{
    const struct policy *p = &s->policy;

    if (s->serves && !((p->set >> POLICY_ID_secrets) & 1u)) {
        (void)fail(err, VIAL_E_POLICY,
                   "a daemon's callers have secrets only if the policy says so");
        return fail_remedy(err, "set policy key 'secrets' in /etc/vial/vial.yaml, and "
                                "restart the daemon");
    }
    return policy_check_list(p, POLICY_ID_secrets, "secret", name, err);
}

static int define(const struct settings *s, const char *entry, struct strv *out,
                  struct vial_error *err)
{
    const char *wrong = NULL;

    if (!strchr(entry, '=')) {
        if (check_policy(s, entry, err) < 0)
            return -1;
        return secret_find(&s->secrets, entry, out)
                   ? 0
                   : refuse(entry, "the settings have none of that name", err);
    }
    if (s->serves || (s->policy.set >> POLICY_ID_secrets) & 1u) {
        (void)fail(err, VIAL_E_POLICY, "a request may not define secrets here");
        return fail_remedy(err, "name one of the settings' block 'secrets'");
    }
    wrong = secret_inline(entry, out);
    return wrong ? refuse(entry, wrong, err) : 0;
}

/* Its hosts are ones that the gate lets through. */
static void allow_hosts(const struct strv *lines, struct strv *allow)
{
    for (size_t i = 0; i < lines->count; i++) {
        const char *host = lines->items[i];
        struct name_rule rule;

        if (!str_starts(host, "host "))
            continue;
        host += strlen("host ");
        if (name_rule_parse(host, &rule) == NULL && rule.low)
            strv_push(allow, host);
        else
            strv_printf(allow, "%s:%d", host, SECRET_PORT);
    }
}

static int add_one(struct draft *d, const char *entry, struct vial_error *err)
{
    const struct settings *s = d->settings;
    struct plan_gate *gate = &d->plan->gate;
    auto_strv struct strv lines = { 0 }, twin = { 0 };
    auto_str struct str placeholder = { 0 };
    struct secret secret;
    size_t at = 0;
    const char *wrong = NULL;

    if (define(s, entry, &lines, err) < 0)
        return -1;
    if (!strv_ok(&lines))
        return fail_memory(err);
    wrong = secret_read(lines.items, lines.count, &at, &secret);
    if (!wrong && secret_find(&gate->secrets, secret.name, &twin))
        wrong = "it is named twice";
    if (!wrong && s->serves && !str_starts(secret.from, "file:"))
        wrong = "a daemon's are read from files";
    if (wrong)
        return refuse(entry, wrong, err);
    secret_placeholder(s->secret_seed, secret.name, secret.shape, &placeholder);
    allow_hosts(&lines, &gate->allow);
    strv_copy(&gate->secrets, &lines);
    strv_printf(&gate->secrets, "placeholder %s", placeholder.data);
    return strv_ok(&gate->secrets) && strv_ok(&gate->allow) && str_ok(&placeholder)
               ? 0
               : fail_memory(err);
}

int secrets_build(struct draft *d, struct vial_error *err)
{
    const struct strv *wanted = &d->req->secrets;

    if (!wanted->count)
        return 0;
    if (!str_eq(d->plan->driver, "native")) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot keep secrets",
                   d->plan->driver);
        return fail_remedy(err, "use '--driver native'");
    }
    for (size_t i = 0; i < wanted->count; i++)
        if (add_one(d, wanted->items[i], err) < 0)
            return -1;
    return 0;
}

void secrets_trust_env(const struct plan *plan, struct strv *env)
{
    static const char *const trust[] = {
        "SSL_CERT_FILE=" SECRET_BUNDLE,  "REQUESTS_CA_BUNDLE=" SECRET_BUNDLE,
        "CURL_CA_BUNDLE=" SECRET_BUNDLE, "GIT_SSL_CAINFO=" SECRET_BUNDLE,
        "PIP_CERT=" SECRET_BUNDLE,       "CARGO_HTTP_CAINFO=" SECRET_BUNDLE,
        "AWS_CA_BUNDLE=" SECRET_BUNDLE,  "NODE_EXTRA_CA_CERTS=" SECRET_CA,
        "DENO_CERT=" SECRET_CA,
    };

    for (size_t i = 0; plan->gate.secrets.count && i < sizeof(trust) / sizeof(*trust);
         i++)
        strv_push(env, trust[i]);
}

static bool has_variable(const struct strv *env, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return true;
    return false;
}

int secrets_env(const struct draft *d, struct strv *env, struct vial_error *err)
{
    const struct strv *lines = &d->plan->gate.secrets;
    struct secret s;

    for (size_t at = 0; at < lines->count;) {
        if (secret_read(lines->items, lines->count, &at, &s) || !s.placeholder)
            return fail(err, VIAL_E_INTERNAL, "a secret of the plan is not one");
        if (has_variable(&d->req->env, s.name)) {
            (void)fail(err, VIAL_E_VALUE, "env '%s' is a secret's variable", s.name);
            return fail_remedy(err, "leave it out of env");
        }
        strv_printf(env, "%s=%s", s.name, s.placeholder);
    }
    return 0;
}

/* LINES begins at AT with the COUNT lines of GROUP. */
static bool is_group(const struct strv *lines, size_t at, const struct strv *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (!str_eq(lines->items[at + i], group->items[i]))
            return false;
    return group->count > 0;
}

int secrets_judge(const struct plan *plan, const struct settings *settings,
                  struct vial_error *err)
{
    const struct strv *lines = &plan->gate.secrets;
    const struct policy *p = &settings->policy;
    size_t count = 0;

    for (size_t at = 0; at < lines->count; count++) {
        auto_strv struct strv group = { 0 };
        size_t first = at;
        struct secret s;

        if (secret_read(lines->items, lines->count, &at, &s) || !s.placeholder ||
            count == SECRET_MOST || !str_eq(plan->driver, "native"))
            return fail(err, VIAL_E_VALUE, "a secret of the plan is not one");
        if (!((p->set >> POLICY_ID_secrets) & 1u) || !strv_has(&p->secrets, s.name) ||
            !secret_find(&settings->secrets, s.name, &group) || !strv_ok(&group) ||
            at - first != group.count + 1 || !is_group(lines, first, &group) ||
            !str_starts(s.from, "file:"))
            return fail(err, VIAL_E_POLICY, "the policy does not give secret '%s'",
                        s.name);
    }
    return 0;
}
