/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/talk/rules.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "images/store.h"
#include "keeper/talk/codec.h"
#include "model/secret.h"
#include "volumes/volume_store.h"

#define VERSION   6u
#define LIST_MAX  1024u
#define MOST_EVER 100000u
#define SOCKETS   64u

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

static bool look_at(const char *path, struct rules_socket *out)
{
    struct stat st;

    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    out->changed_ns =
        (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec;
    return true;
}

static void pack_sockets(struct pack *p, const char *const *paths)
{
    struct rules_socket now = { 0 };
    uint32_t count = 0;

    for (size_t i = 0; paths && paths[i]; i++)
        count += look_at(paths[i], &now);
    pack_u32(p, count);
    for (size_t i = 0; paths && paths[i] && count > 0; i++) {
        if (!look_at(paths[i], &now))
            continue;
        count--;
        pack_text(p, paths[i]);
        pack_u64(p, now.dev);
        pack_u64(p, now.ino);
        pack_u64(p, now.changed_ns);
    }
}

void rules_pack(struct pack *p, const struct settings *settings, uint32_t vessels,
                const char *const *imports, const char *const *sockets)
{
    auto_free char *store = store_path(settings->image_store.store, settings->home);
    auto_free char *volumes =
        volume_store_path(settings->volumes.store, settings->home);

    pack_u32(p, VERSION);
    pack_u32(p, vessels);
    pack_u32(p, (uint32_t)settings->serve.log);
    pack_text(p, settings->share_dir);
    pack_text(p, settings->home);
    pack_text(p, store);
    pack_text(p, volumes);
    pack_u32(p, (uint32_t)settings->volumes.caller);
    pack_u32(p, (uint32_t)settings->volumes.most);
    pack_u64(p, (uint64_t)settings->volumes.size);
    pack_u64(p, (uint64_t)settings->volumes.caller_size);
    pack_imports(p, imports);
    pack_sockets(p, sockets);
    pack_policy(p, &settings->policy);
    pack_texts(p, settings->secrets.items, settings->secrets.count);
}

static void unpack_policy(struct unpack *u, struct policy *policy)
{
    policy->set = unpack_u64(u);
#define POLICY_NUMBER(name, ...) policy->name = (int64_t)unpack_u64(u);
#define POLICY_LIST(name, ...)   list_unpack(u, LIST_MAX, SIZE_MAX, &policy->name);
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    for (size_t i = 0; i < POLICY_ID__COUNT; i++)
        policy->origin[i] = unpack_optional(u);
}

static void take_sockets(struct unpack *u, struct rules *r)
{
    uint32_t count = unpack_u32(u);

    if (count > SOCKETS)
        u->bad = true;
    r->sockets = u->bad || !count ? NULL : calloc(count, sizeof(*r->sockets));
    if (count && !r->sockets)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < count; i++) {
        struct rules_socket *s = &r->sockets[i];

        r->socket_count = i + 1;
        s->path = unpack_optional(u);
        s->dev = unpack_u64(u);
        s->ino = unpack_u64(u);
        s->changed_ns = unpack_u64(u);
        if (!s->path)
            u->bad = true;
    }
}

void rules_remove_sockets(const struct rules *r)
{
    for (size_t i = 0; i < r->socket_count; i++) {
        const struct rules_socket *s = &r->sockets[i];
        struct rules_socket now = { 0 };

        if (look_at(s->path, &now) && now.dev == s->dev && now.ino == s->ino &&
            now.changed_ns == s->changed_ns)
            (void)unlink(s->path);
    }
}

int rules_unpack(struct unpack *u, struct rules *out)
{
    struct rules r = { 0 };

    if (unpack_u32(u) != VERSION)
        u->bad = true;
    r.vessels = unpack_u32(u);
    r.log = unpack_u32(u);
    r.settings.share_dir = unpack_optional(u);
    r.settings.home = unpack_optional(u);
    r.store = unpack_optional(u);
    r.volumes = unpack_optional(u);
    r.settings.volumes.caller = unpack_u32(u);
    r.settings.volumes.most = unpack_u32(u);
    r.settings.volumes.size = (int64_t)unpack_u64(u);
    r.settings.volumes.caller_size = (int64_t)unpack_u64(u);
    list_unpack(u, LIST_MAX, SIZE_MAX, &r.imports);
    take_sockets(u, &r);
    unpack_policy(u, &r.settings.policy);
    list_unpack(u, SECRET_LINES_MAX, SECRET_LINE, &r.settings.secrets);
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
    strv_done(&r->settings.secrets);
    free(r->settings.share_dir);
    free(r->settings.home);
    free(r->store);
    free(r->volumes);
    strv_done(&r->imports);
    for (size_t i = 0; i < r->socket_count; i++)
        free(r->sockets[i].path);
    free(r->sockets);
    *r = (struct rules){ 0 };
}
