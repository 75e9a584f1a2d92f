/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/gate_message.h"

#include <stdlib.h>
#include <string.h>

static const char *const verdicts[] = {
#define V(id, text) [GATE_##id] = text,
    GATE_VERDICTS(V)
#undef V
};

const char *gate_verdict_name(uint32_t verdict)
{
    return verdict < GATE_VERDICT_COUNT ? verdicts[verdict] : "denied";
}

static void write_list(struct pack *p, char *const *list)
{
    size_t count = 0;

    while (list && list[count])
        count++;
    pack_texts(p, list, count);
}

void gate_config_write(struct pack *p, const struct gate_config *c)
{
    write_list(p, c->allow);
    write_list(p, c->deny);
    write_list(p, c->unchecked);
    write_list(p, c->resolvers);
    write_list(p, c->private_in);
    write_list(p, c->secrets);
    pack_u32(p, c->connections);
    pack_u32(p, c->listeners);
    pack_u64(p, c->limits.connections);
    pack_u64(p, c->limits.per_minute);
    pack_u64(p, c->limits.bytes_in);
    pack_u64(p, c->limits.bytes_out);
}

int gate_config_read(struct unpack *u, struct gate_config *out)
{
    *out = (struct gate_config){ 0 };
    out->allow = unpack_texts(u, GATE_RULES_MAX);
    out->deny = unpack_texts(u, GATE_RULES_MAX);
    out->unchecked = unpack_texts(u, GATE_RULES_MAX);
    out->resolvers = unpack_texts(u, GATE_RULES_MAX);
    out->private_in = unpack_texts(u, GATE_RULES_MAX);
    out->secrets = unpack_texts(u, GATE_RULES_MAX);
    out->connections = unpack_u32(u);
    out->listeners = unpack_u32(u);
    out->limits.connections = unpack_u64(u);
    out->limits.per_minute = unpack_u64(u);
    out->limits.bytes_in = unpack_u64(u);
    out->limits.bytes_out = unpack_u64(u);
    if (unpack_finished(u) && out->connections && out->listeners <= GATE_LISTEN_MAX)
        return 0;
    gate_config_done(out);
    return -1;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

void gate_config_done(struct gate_config *c)
{
    free_list(c->allow);
    free_list(c->deny);
    free_list(c->unchecked);
    free_list(c->resolvers);
    free_list(c->private_in);
    free_list(c->secrets);
    *c = (struct gate_config){ 0 };
}

void gate_account_write(struct pack *p, const struct gate_account *a)
{
    pack_u64(p, a->left_out);
    pack_u64(p, a->connections);
    pack_u64(p, a->refused);
    pack_u64(p, a->bytes_in);
    pack_u64(p, a->bytes_out);
    pack_u32(p, a->limited);
    pack_u64(p, a->over_quota);
    pack_u32(p, (uint32_t)a->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct gate_record *r = &a->records[i];

        pack_text(p, r->name);
        pack_u32(p, r->port);
        pack_u32(p, r->verdict);
        pack_u32(p, r->incoming);
        pack_u64(p, r->bytes_in);
        pack_u64(p, r->bytes_out);
        pack_u64(p, r->ms);
        pack_u64(p, r->times);
    }
}

static void read_record(struct unpack *u, struct gate_record *r)
{
    size_t len = 0;
    const uint8_t *name = unpack_bytes(u, &len);
    uint32_t port = unpack_u32(u);

    if (u->bad || len >= sizeof r->name || memchr(name, 0, len) || port > UINT16_MAX) {
        u->bad = true;
        return;
    }
    memcpy(r->name, name, len);
    r->name[len] = 0;
    r->port = (uint16_t)port;
    r->verdict = unpack_u32(u);
    r->incoming = unpack_u32(u) == 1;
    r->bytes_in = unpack_u64(u);
    r->bytes_out = unpack_u64(u);
    r->ms = unpack_u64(u);
    r->times = unpack_u64(u);
    u->bad = u->bad || r->verdict >= GATE_VERDICT_COUNT;
}

int gate_account_read(struct unpack *u, struct gate_account *out)
{
    *out = (struct gate_account){ 0 };
    out->left_out = unpack_u64(u);
    out->connections = unpack_u64(u);
    out->refused = unpack_u64(u);
    out->bytes_in = unpack_u64(u);
    out->bytes_out = unpack_u64(u);
    out->limited = unpack_u32(u) == 1;
    out->over_quota = unpack_u64(u);
    out->count = unpack_u32(u);
    if (out->count > GATE_RECORDS_MAX)
        u->bad = true;
    for (size_t i = 0; !u->bad && i < out->count; i++)
        read_record(u, &out->records[i]);
    return unpack_finished(u) ? 0 : -1;
}
