/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_KEEPER_PLAN_H
#define VIAL_TESTS_FUZZ_KEEPER_PLAN_H

/* For fuzz_keeper.c: a good plan, and what an input changes in it. An input's edits are
 * rows of bytes: what is changed, and to what. */

#include "../unit/plan_case.h"
#include "fuzz_vessel.h"

#define EDIT_TEXT 255

/* Malloc'ed; "@" at its begin is where the host's files are. */
static char *text(struct bytes *b)
{
    char raw[EDIT_TEXT + 1] = { 0 };
    char whole[sizeof(raw) + sizeof(fuzz.root)];
    size_t len = bytes_number(b, 1);

    for (size_t i = 0; i < len && b->len > 0; i++)
        raw[i] = (char)bytes_number(b, 1);
    (void)snprintf(whole, sizeof(whole), "%s%s", raw[0] == '@' ? fuzz.root : "",
                   raw[0] == '@' ? raw + 1 : raw);
    return strdup(whole);
}

static void edit_text(struct plan *p, struct bytes *b)
{
    char **const all[] = { &p->driver,           &p->workdir,
                           &p->hostname,         &p->seccomp,
                           &p->language,         &p->image,
                           &p->rootfs,           &p->label_session,
                           &p->label_task,       &p->correlation,
                           &p->seccomp_file,     &p->container.runtime,
                           &p->container.prefix, &p->container.network_name };
    char **at = all[bytes_number(b, 1) % (sizeof(all) / sizeof(*all))];

    free(*at);
    *at = text(b);
}

/* One that is what it says, so that only its place is judged. */
static void add_mount(struct plan *p, struct bytes *b)
{
    struct plan_mount *m;
    struct stat st = { 0 };
    uint64_t flags = bytes_number(b, 1);

    p->mounts = realloc(p->mounts, (p->mount_count + 1) * sizeof(*p->mounts));
    MUST(p->mounts);
    m = &p->mounts[p->mount_count++];
    *m = (struct plan_mount){ .source = text(b), .writable = flags & 1 };
    m->target = text(b);
    if (stat(m->source, &st) == 0) {
        m->dev = st.st_dev + ((flags & 2) != 0);
        m->ino = st.st_ino;
        m->is_dir = S_ISDIR(st.st_mode) != 0;
    }
}

static void set_limit(struct limits *l, struct bytes *b)
{
    const struct limit_row *row = &limit_rows[bytes_number(b, 1) % LIMIT_COUNT];

    *limits_at(l, row) = (int64_t)bytes_number(b, 8);
}

static void add_filter(struct plan *p, struct bytes *b)
{
    struct bytes filter = bytes_take(b, bytes_number(b, 2));

    blob_done(&p->custom.filter);
    MUST(blob_set(&p->custom.filter, (const char *)filter.data, filter.len) == 0);
}

static void edit_plan(struct plan *p, struct bytes *b)
{
    switch (bytes_number(b, 1) % 8) {
    case 0:
        set_limit(&p->limits, b);
        break;
    case 1:
        edit_text(p, b);
        break;
    case 2:
        if (p->mount_count <= CODEC_MOUNTS)
            add_mount(p, b);
        break;
    case 3:
        p->network = (enum plan_network)bytes_number(b, 1);
        break;
    case 4:
        p->container.uid = (unsigned)bytes_number(b, 4);
        p->container.gid = (unsigned)bytes_number(b, 4);
        break;
    case 5:
        strv_push(&p->require, "namespaces");
        break;
    case 6:
        add_filter(p, b);
        break;
    default:
        p->count_denied = !p->count_denied;
    }
}

/* What the front says, byte by byte behind its own edits. */
static void pack_edited(struct pack *out, uint32_t verb, struct bytes b)
{
    char program[] = "python3";
    char env[] = "LANG=C.UTF-8";
    char *const all[] = { env };
    struct plan *plan = good_plan();
    uint64_t patches = bytes_number(&b, 1) % 4;
    size_t at[4];
    uint8_t value[4];

    for (size_t i = 0; i < patches; i++) {
        at[i] = bytes_number(&b, 2);
        value[i] = (uint8_t)bytes_number(&b, 1);
    }
    while (b.len > 0)
        edit_plan(plan, &b);
    pack_u32(out, verb);
    if (verb == TALK_ZYGOTE) {
        pack_text(out, program);
        pack_texts(out, all, 1);
        pack_u32(out, 0);
    }
    plan_pack(out, plan);
    plan_free(plan);
    MUST(!out->bad);
    for (size_t i = 0; i < patches; i++)
        out->data[at[i] % out->len] = value[i];
}

static void pack_lowered(struct pack *out, struct bytes b)
{
    struct plan *plan = good_plan();

    while (b.len > 0)
        set_limit(&plan->limits, &b);
    pack_u32(out, TALK_LIMIT);
    limits_pack(out, &plan->limits);
    plan_free(plan);
}

#endif
