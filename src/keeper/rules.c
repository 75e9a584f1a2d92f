/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/rules.h"

#include <stdlib.h>

#include "base/auto.h"

#define VERSION   2u
#define LIST_MAX  1024u
#define MOST_EVER 100000u

static void pack_policy(struct pack *p, const struct policy *policy)
{
    pack_u64(p, policy->set);
#define POLICY_NUMBER(name, ...) pack_u64(p, (uint64_t)policy->name);
#define POLICY_LIST(name, ...)   pack_texts(p, policy->name.items, policy->name.count);
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        pack_text(p, policy->origin[i]);
}

static void pack_imports(struct pack *p, const char *const *imports)
{
    uint32_t count = 0;

    while (imports && imports[count])
        count++;
    pack_u32(p, count);
    for (uint32_t i = 0; i < count; i++)
        pack_text(p, imports[i]);
}

void rules_pack(struct pack *p, const struct settings *settings, uint32_t vessels,
                const char *const *imports)
{
    pack_u32(p, VERSION);
    pack_u32(p, vessels);
    pack_u32(p, (uint32_t)settings->serve.log);
    pack_text(p, settings->share_dir);
    pack_text(p, settings->home);
    pack_imports(p, imports);
    pack_policy(p, &settings->policy);
}

static char *take_text(struct unpack *u)
{
    char *text = unpack_text(u);

    if (!text || *text)
        return text;
    free(text);
    return NULL;
}

static void take_list(struct unpack *u, struct strv *out)
{
    char **list = unpack_texts(u, LIST_MAX);

    for (size_t i = 0; list && list[i]; i++) {
        strv_push(out, list[i]);
        free(list[i]);
    }
    free(list);
    if (!strv_ok(out))
        u->bad = true;
}

static void unpack_policy(struct unpack *u, struct policy *policy)
{
    policy->set = unpack_u64(u);
#define POLICY_NUMBER(name, ...) policy->name = (int64_t)unpack_u64(u);
#define POLICY_LIST(name, ...)   take_list(u, &policy->name);
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        policy->origin[i] = take_text(u);
}

int rules_unpack(struct unpack *u, struct rules *out)
{
    struct rules r = { 0 };

    if (unpack_u32(u) != VERSION)
        u->bad = true;
    r.vessels = unpack_u32(u);
    r.log = unpack_u32(u);
    r.settings.share_dir = take_text(u);
    r.settings.home = take_text(u);
    take_list(u, &r.imports);
    unpack_policy(u, &r.settings.policy);
    if (unpack_finished(u) && r.settings.share_dir && r.vessels > 0 &&
        r.vessels <= MOST_EVER && r.log <= RULES_LOG_NONE) {
        *out = r;
        return 0;
    }
    rules_done(&r);
    return -1;
}

void rules_done(struct rules *r)
{
    policy_done(&r->settings.policy);
    free(r->settings.share_dir);
    free(r->settings.home);
    strv_done(&r->imports);
    *r = (struct rules){ 0 };
}
