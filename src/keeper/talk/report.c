/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/talk/report.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper/talk/codec.h"
#include "keeper/talk/talk.h"

#define LAYERS_MAX  64
#define ENV_MAX     256
#define IMPORTS_MAX 64
#define WORDS_MAX   256 /* of ENTRYPOINT, and of CMD */

/* Every word that a driver uses for a layer, a level, or who holds limits: struct
 * caps borrows them, so they must live for ever. */
static const char *const words[] = {
    "none",    "landlock", "namespaces", "container", "rlimit", "cgroup",
    "cgroup1", "cgroup2",  "user",       "pid",       "mount",  "net",
    "ipc",     "uts",      "seccomp",    "caps",      "engine", "no_new_privs",
    "overlay", "limits",   "ro_root",    "image",     "one",    "nobody",
};

static const char *word(const char *text)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(words[i], text) == 0)
            return words[i];
    return "other";
}

static void copy_text(struct unpack *u, char *out, size_t size)
{
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(u, &len);

    if (len >= size)
        u->bad = true;
    (void)snprintf(out, size, "%.*s", (int)(len < size ? len : 0),
                   bytes ? (const char *)bytes : "");
}

static const char *take_word(struct unpack *u)
{
    char text[32];

    copy_text(u, text, sizeof(text));
    return word(text);
}

void caps_pack(struct pack *p, const struct caps *caps)
{
    pack_u32(p, caps->usable);
    pack_text(p, caps->level);
    pack_text(p, caps->limits_by);
    pack_u32(p, (uint32_t)caps->layer_count);
    for (size_t i = 0; i < caps->layer_count; i++) {
        const struct layer *layer = &caps->layers[i];

        pack_text(p, layer->name);
        pack_u32(p, layer->available);
        pack_text(p, layer->reason);
        pack_text(p, layer->fix);
    }
    if (!caps->usable)
        talk_write_error(p, &caps->why_not);
}

static void read_layer(struct unpack *u, struct layer *out)
{
    out->name = take_word(u);
    out->available = unpack_u32(u) == 1;
    copy_text(u, out->reason, sizeof(out->reason));
    copy_text(u, out->fix, sizeof(out->fix));
}

int caps_unpack(struct unpack *u, struct caps *out)
{
    size_t count;

    *out = (struct caps){ .usable = unpack_u32(u) == 1 };
    out->level = take_word(u);
    out->limits_by = take_word(u);
    count = unpack_u32(u);
    if (count > CAPS_MAX_LAYERS)
        return -1;
    for (size_t i = 0; i < count; i++)
        read_layer(u, &out->layers[i]);
    out->layer_count = count;
    if (!out->usable && unpack_u32(u) == TALK_BAD)
        talk_read_error(u, &out->why_not);
    return unpack_finished(u) ? 0 : -1;
}

static uint64_t micro(double ms)
{
    return ms > 0 ? (uint64_t)(ms * 1000.0) : 0;
}

static double milli(struct unpack *u)
{
    return (double)unpack_u64(u) / 1000.0;
}

void usage_pack(struct pack *p, const struct vessel_usage *usage)
{
    const struct vial_usage *v = &usage->usage;
    const uint64_t numbers[] = { micro(v->cpu_user_ms),
                                 micro(v->cpu_system_ms),
                                 micro(v->throttled_ms),
                                 v->memory_peak_bytes,
                                 v->pids_peak,
                                 v->read_bytes,
                                 v->write_bytes,
                                 v->net_rx_bytes,
                                 v->net_tx_bytes,
                                 v->disk_peak_bytes,
                                 usage->oom_kills,
                                 usage->pids_events,
                                 usage->memory_bytes,
                                 usage->memory_now_bytes,
                                 usage->memory_cache_bytes };

    pack_u32(p, usage->counted | (usage->net_counted ? 2u : 0u));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        pack_u64(p, numbers[i]);
}

int usage_unpack(struct unpack *u, struct vessel_usage *out)
{
    uint32_t flags = unpack_u32(u);
    struct vial_usage *v = &out->usage;

    *out = (struct vessel_usage){ .counted = flags & 1, .net_counted = flags & 2 };
    v->cpu_user_ms = milli(u);
    v->cpu_system_ms = milli(u);
    v->throttled_ms = milli(u);
    v->memory_peak_bytes = unpack_u64(u);
    v->pids_peak = unpack_u64(u);
    v->read_bytes = unpack_u64(u);
    v->write_bytes = unpack_u64(u);
    v->net_rx_bytes = unpack_u64(u);
    v->net_tx_bytes = unpack_u64(u);
    v->disk_peak_bytes = unpack_u64(u);
    out->oom_kills = unpack_u64(u);
    out->pids_events = unpack_u64(u);
    out->memory_bytes = unpack_u64(u);
    out->memory_now_bytes = unpack_u64(u);
    out->memory_cache_bytes = unpack_u64(u);
    return unpack_finished(u) ? 0 : -1;
}

void vessel_pack(struct pack *p, const struct vessel *v)
{
    pack_text(p, v->id);
    pack_text(p, v->container);
    pack_text(p, v->name);
    pack_text(p, v->level);
    pack_text(p, v->limits_by);
    pack_text(p, v->path);
    pack_text(p, v->tmpdir);
    pack_text(p, v->jail.workdir);
    pack_text(p, v->cwd);
    pack_text(p, v->digest);
    pack_text(p, v->owners);
    pack_texts(p, v->layers.items, v->layers.count);
    pack_texts(p, v->env.items, v->env.count);
    pack_texts(p, v->imports.items, v->imports.count);
    pack_u32(p, v->pool);
    pack_texts(p, v->entrypoint.items, v->entrypoint.count);
    pack_texts(p, v->cmd.items, v->cmd.count);
    pack_u32(p, (v->death_fd >= 0 ? 1u : 0u) | (v->event_fd >= 0 ? 2u : 0u) |
                    (v->gate_fd >= 0 ? 4u : 0u));
}

/* An entry without "=" would be no variable. */
static bool are_variables(const struct strv *env)
{
    for (size_t i = 0; i < env->count; i++)
        if (!strchr(env->items[i], '='))
            return false;
    return true;
}

int vessel_unpack(struct unpack *u, struct vessel_report *out)
{
    uint32_t fds;

    *out = (struct vessel_report){ 0 };
    copy_text(u, out->id, sizeof(out->id));
    copy_text(u, out->container, sizeof(out->container));
    copy_text(u, out->name, sizeof(out->name));
    copy_text(u, out->level, sizeof(out->level));
    copy_text(u, out->limits_by, sizeof(out->limits_by));
    out->path = unpack_optional(u);
    out->tmpdir = unpack_optional(u);
    out->workdir = unpack_optional(u);
    out->cwd = unpack_optional(u);
    copy_text(u, out->digest, sizeof(out->digest));
    out->owners = take_word(u);
    list_unpack(u, LAYERS_MAX, SIZE_MAX, &out->layers);
    list_unpack(u, ENV_MAX, SIZE_MAX, &out->env);
    list_unpack(u, IMPORTS_MAX, SIZE_MAX, &out->imports);
    out->pool = unpack_u32(u);
    list_unpack(u, WORDS_MAX, SIZE_MAX, &out->entrypoint);
    list_unpack(u, WORDS_MAX, SIZE_MAX, &out->cmd);
    fds = unpack_u32(u);
    out->has_death = fds & 1;
    out->has_event = fds & 2;
    out->has_gate = fds & 4;
    if (unpack_finished(u) && strv_ok(&out->layers) && strv_ok(&out->env) &&
        strv_ok(&out->imports) && strv_ok(&out->entrypoint) && strv_ok(&out->cmd) &&
        are_variables(&out->env) && (!out->cwd || out->cwd[0] == '/'))
        return 0;
    vessel_report_done(out);
    return -1;
}

void vessel_report_done(struct vessel_report *r)
{
    free(r->path);
    free(r->tmpdir);
    free(r->workdir);
    free(r->cwd);
    strv_done(&r->layers);
    strv_done(&r->env);
    strv_done(&r->imports);
    strv_done(&r->entrypoint);
    strv_done(&r->cmd);
    *r = (struct vessel_report){ 0 };
}

enum volume_flag { ROW_BROKEN = 1, ROW_MANY = 2, ROW_BUSY = 4, ROW_WRITTEN = 8 };

void volume_pack(struct pack *p, const struct volume_info *v)
{
    pack_text(p, v->name);
    pack_u32(p, (v->broken ? ROW_BROKEN : 0u) | (v->many ? ROW_MANY : 0u) |
                    (v->busy ? ROW_BUSY : 0u) | (v->written ? ROW_WRITTEN : 0u));
    pack_u64(p, (uint64_t)v->created);
    pack_u64(p, (uint64_t)v->used);
    pack_u64(p, v->size);
}

int volume_unpack(struct unpack *u, struct volume_info *out)
{
    struct volume_info v = { 0 };
    uint32_t flags;

    copy_text(u, v.name, sizeof(v.name));
    flags = unpack_u32(u);
    v.broken = flags & ROW_BROKEN;
    v.many = flags & ROW_MANY;
    v.busy = flags & ROW_BUSY;
    v.written = flags & ROW_WRITTEN;
    v.created = (int64_t)unpack_u64(u);
    v.used = (int64_t)unpack_u64(u);
    v.size = unpack_u64(u);
    if (u->bad || !volume_name_ok(v.name))
        return -1;
    *out = v;
    return 0;
}
