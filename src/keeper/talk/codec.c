/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/talk/codec.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "model/secret.h"

#define VERSION    8u
#define PATH_LEN   4095u
#define NAME_LEN   512u
#define FILTER_LEN ((size_t)4096 * 8) /* BPF_MAXINSNS of 8 bytes */

enum mount_flag {
    MOUNT_WRITABLE = 1,
    MOUNT_DIR = 2,
    MOUNT_VOLUME = 4,
    MOUNT_FLAGS = 7
};

/* The texts of a plan, in their order. */
static const struct text_row {
    size_t offset;
    size_t max;
    bool needed; /* else "" stands for NULL */
} texts[] = {
    { offsetof(struct plan, driver), NAME_LEN, true },
    { offsetof(struct plan, workdir), PATH_LEN, true },
    { offsetof(struct plan, hostname), NAME_LEN, true },
    { offsetof(struct plan, seccomp), NAME_LEN, true },
    { offsetof(struct plan, language), NAME_LEN, false },
    { offsetof(struct plan, image), NAME_LEN, false },
    { offsetof(struct plan, rootfs), PATH_LEN, false },
    { offsetof(struct plan, root.store), PATH_LEN, false },
    { offsetof(struct plan, label_session), NAME_LEN, false },
    { offsetof(struct plan, label_task), NAME_LEN, false },
    { offsetof(struct plan, correlation), NAME_LEN, false },
    { offsetof(struct plan, container.network_name), NAME_LEN, false },
    { offsetof(struct plan, container.runtime), NAME_LEN, false },
    { offsetof(struct plan, container.prefix), NAME_LEN, false },
    { offsetof(struct plan, seccomp_file), PATH_LEN, false },
};

#define TEXTS (sizeof(texts) / sizeof(*texts))

static const char *text_of(const struct plan *plan, size_t i)
{
    return *(char *const *)(const void *)((const char *)plan + texts[i].offset);
}

static char **text_at(struct plan *plan, size_t i)
{
    return (char **)(void *)((char *)plan + texts[i].offset);
}

static void pack_mount(struct pack *p, const struct plan_mount *m)
{
    pack_text(p, m->source);
    pack_text(p, m->target);
    pack_u32(p, (m->writable ? MOUNT_WRITABLE : 0u) | (m->is_dir ? MOUNT_DIR : 0u) |
                    (m->volume ? MOUNT_VOLUME : 0u));
    pack_u64(p, m->dev);
    pack_u64(p, m->ino);
    pack_texts(p, m->hidden.items, m->hidden.count);
}

static void pack_gate(struct pack *p, const struct plan_gate *gate)
{
    pack_texts(p, gate->allow.items, gate->allow.count);
    pack_texts(p, gate->deny.items, gate->deny.count);
    pack_texts(p, gate->unchecked.items, gate->unchecked.count);
    pack_texts(p, gate->resolvers.items, gate->resolvers.count);
    pack_texts(p, gate->private_in.items, gate->private_in.count);
    pack_texts(p, gate->secrets.items, gate->secrets.count);
}

static void pack_container(struct pack *p, const struct plan_container *c)
{
    pack_u32(p, c->uid);
    pack_u32(p, c->gid);
    pack_u32(p, c->nproc);
    pack_u64(p, (uint64_t)c->open_ms);
    pack_u64(p, (uint64_t)c->retries);
    pack_u64(p, (uint64_t)c->retry_ms);
    pack_u64(p, (uint64_t)c->network_ms);
    pack_u64(p, (uint64_t)c->most);
    pack_u64(p, (uint64_t)c->most_all);
    pack_texts(p, c->dns.items, c->dns.count);
    pack_u32(p, (uint32_t)c->port_count);
    for (size_t i = 0; i < c->port_count; i++) {
        pack_text(p, c->ports[i].address);
        pack_u32(p, c->ports[i].host);
        pack_u32(p, c->ports[i].inside);
        pack_u32(p, c->ports[i].udp);
    }
    pack_u32(p, (uint32_t)c->cache_count);
    for (size_t i = 0; i < c->cache_count; i++) {
        pack_text(p, c->caches[i].volume);
        pack_text(p, c->caches[i].target);
    }
}

void limits_pack(struct pack *p, const struct limits *limits)
{
    pack_u32(p, LIMIT_COUNT);
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        pack_u64(p, (uint64_t)limits_get(limits, &limit_rows[i]));
}

void plan_pack(struct pack *p, const struct plan *plan)
{
    pack_u32(p, VERSION);
    pack_text(p, plan->id);
    for (size_t i = 0; i < TEXTS; i++)
        pack_text(p, text_of(plan, i));
    pack_u32(p, (uint32_t)plan->network);
    pack_gate(p, &plan->gate);
    limits_pack(p, &plan->limits);
    pack_texts(p, plan->require.items, plan->require.count);
    pack_u32(p, (uint32_t)plan->mount_count);
    for (size_t i = 0; i < plan->mount_count; i++)
        pack_mount(p, &plan->mounts[i]);
    pack_container(p, &plan->container);
    pack_u32(p, plan->root.writable);
    pack_u32(p, plan->root.as_root);
    pack_u32(p, plan->root.sudo);
    pack_u32(p, plan->count_denied);
    pack_u32(p, plan->fixed_addresses);
    pack_bytes(p, plan->custom.filter.data, plan->custom.filter.len);
}

/* Counted bytes without NUL, at most MAX; NULL, with U bad, when not so. */
static char *take_text(struct unpack *u, size_t max)
{
    size_t at = u->at;
    size_t len = unpack_u32(u);

    if (len > max)
        u->bad = true;
    u->at = at;
    return u->bad ? NULL : unpack_text(u);
}

static void read_id(struct unpack *u, struct plan *plan)
{
    char *id = take_text(u, sizeof(plan->id) - 1);

    if (id)
        memcpy(plan->id, id, strlen(id) + 1);
    free(id);
}

static void read_texts(struct unpack *u, struct plan *plan)
{
    for (size_t i = 0; i < TEXTS; i++) {
        char **to = text_at(plan, i);

        *to = take_text(u, texts[i].max);
        if (!*to || **to)
            continue;
        u->bad = u->bad || texts[i].needed;
        free(*to);
        *to = NULL;
    }
}

/* No limit is negative, and none that a plan must have is missing. */
int limits_unpack(struct unpack *u, struct limits *out)
{
    if (unpack_u32(u) != LIMIT_COUNT)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < LIMIT_COUNT; i++) {
        uint64_t value = unpack_u64(u);

        if (value > INT64_MAX || (value == 0 && limit_rows[i].needed))
            u->bad = true;
        else
            *limits_at(out, &limit_rows[i]) = (int64_t)value;
    }
    return u->bad ? -1 : 0;
}

void list_unpack(struct unpack *u, size_t max, size_t len, struct strv *out)
{
    char **list = unpack_texts(u, max);

    for (size_t i = 0; list && list[i]; i++) {
        if (strlen(list[i]) > len)
            u->bad = true;
        strv_push(out, list[i]);
        free(list[i]);
    }
    free(list);
    if (!strv_ok(out))
        u->bad = true;
}

static void read_mount(struct unpack *u, struct plan_mount *m)
{
    uint32_t flags;

    m->source = take_text(u, PATH_LEN);
    m->target = take_text(u, PATH_LEN);
    flags = unpack_u32(u);
    m->writable = flags & MOUNT_WRITABLE;
    m->is_dir = flags & MOUNT_DIR;
    m->volume = flags & MOUNT_VOLUME;
    m->dev = unpack_u64(u);
    m->ino = unpack_u64(u);
    list_unpack(u, MOUNT_HIDDEN_MAX, PATH_LEN, &m->hidden);
    if (flags & ~(uint32_t)MOUNT_FLAGS)
        u->bad = true;
}

static void read_mounts(struct unpack *u, struct plan *plan)
{
    uint32_t count = unpack_u32(u);

    if (count > CODEC_MOUNTS)
        u->bad = true;
    if (u->bad || count == 0)
        return;
    plan->mounts = calloc(count, sizeof(*plan->mounts));
    if (!plan->mounts)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < count; i++) {
        plan->mount_count = i + 1;
        read_mount(u, &plan->mounts[i]);
    }
}

static int64_t read_amount(struct unpack *u)
{
    uint64_t value = unpack_u64(u);

    if (value > INT64_MAX)
        u->bad = true;
    return u->bad ? 0 : (int64_t)value;
}

static void read_ports(struct unpack *u, struct plan_container *c)
{
    uint32_t count = unpack_u32(u);

    if (count > CODEC_PORTS)
        u->bad = true;
    c->ports = u->bad || !count ? NULL : calloc(count, sizeof(*c->ports));
    if (count && !c->ports)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < count; i++) {
        struct plan_port *port = &c->ports[i];
        uint32_t udp;

        c->port_count = i + 1;
        port->address = take_text(u, NAME_LEN);
        port->host = unpack_u32(u);
        port->inside = unpack_u32(u);
        udp = unpack_u32(u);
        port->udp = udp == 1;
        u->bad = u->bad || udp > 1;
    }
}

static void read_caches(struct unpack *u, struct plan_container *c)
{
    uint32_t count = unpack_u32(u);

    if (count > CODEC_CACHES)
        u->bad = true;
    c->caches = u->bad || !count ? NULL : calloc(count, sizeof(*c->caches));
    if (count && !c->caches)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < count; i++) {
        c->cache_count = i + 1;
        c->caches[i].volume = take_text(u, NAME_LEN);
        c->caches[i].target = take_text(u, PATH_LEN);
    }
}

static void read_container(struct unpack *u, struct plan_container *c)
{
    c->uid = unpack_u32(u);
    c->gid = unpack_u32(u);
    c->nproc = unpack_u32(u) != 0;
    c->open_ms = read_amount(u);
    c->retries = read_amount(u);
    c->retry_ms = read_amount(u);
    c->network_ms = read_amount(u);
    c->most = read_amount(u);
    c->most_all = read_amount(u);
    list_unpack(u, CODEC_DNS, NAME_LEN, &c->dns);
    read_ports(u, c);
    read_caches(u, c);
}

static void read_gate(struct unpack *u, struct plan_gate *gate)
{
    list_unpack(u, CODEC_RULES, NAME_LEN, &gate->allow);
    list_unpack(u, CODEC_RULES, NAME_LEN, &gate->deny);
    list_unpack(u, CODEC_RULES, NAME_LEN, &gate->unchecked);
    list_unpack(u, CODEC_RULES, NAME_LEN, &gate->resolvers);
    list_unpack(u, CODEC_RULES, NAME_LEN, &gate->private_in);
    list_unpack(u, CODEC_RULES, SECRET_LINE, &gate->secrets);
}

static bool read_flag(struct unpack *u)
{
    uint32_t value = unpack_u32(u);

    u->bad = u->bad || value > 1;
    return value == 1;
}

/* A file has its filter; what that says is judged where it is put to use. */
static void read_filter(struct unpack *u, struct plan *plan)
{
    size_t len = 0;
    const uint8_t *data = unpack_bytes(u, &len);

    if (u->bad || len > FILTER_LEN || (len > 0) != (plan->seccomp_file != NULL) ||
        (len && blob_set(&plan->custom.filter, data, len) < 0))
        u->bad = true;
}

int plan_unpack(struct unpack *u, struct plan **out, struct vial_error *err)
{
    auto_plan struct plan *plan = calloc(1, sizeof(*plan));
    uint32_t network;

    if (!plan)
        return fail_memory(err);
    if (unpack_u32(u) != VERSION)
        u->bad = true;
    read_id(u, plan);
    read_texts(u, plan);
    network = unpack_u32(u);
    if (network > NETWORK_GATE)
        u->bad = true;
    plan->network = u->bad ? NETWORK_NONE : (enum plan_network)network;
    read_gate(u, &plan->gate);
    (void)limits_unpack(u, &plan->limits);
    list_unpack(u, CODEC_REQUIRE, NAME_LEN, &plan->require);
    read_mounts(u, plan);
    read_container(u, &plan->container);
    plan->root.writable = read_flag(u);
    plan->root.as_root = read_flag(u);
    plan->root.sudo = read_flag(u);
    plan->count_denied = read_flag(u);
    plan->fixed_addresses = read_flag(u);
    read_filter(u, plan);
    if (!unpack_finished(u))
        return fail(err, VIAL_E_VALUE, "the plan is not understood");
    *out = ptr_take(&plan);
    return 0;
}
