/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/client/zygote_client.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/fail.h"
#include "keeper/client/ask.h"
#include "keeper/client/client.h"
#include "keeper/talk/codec.h"

#define UP_MS   130000 /* imports can take long */
#define FORK_MS 15000

struct zygote_client {
    int leash_fd;
    uint32_t number;
};

static struct zygote_client *client_of(struct zygote *zygote)
{
    return (struct zygote_client *)(void *)zygote;
}

/* Packs what vial made of argv and environment: the zygote starts as such a program. */
static void pack_question(struct pack *p, const struct plan *plan,
                          const char *const *imports)
{
    size_t count = 0;

    while (imports && imports[count])
        count++;
    pack_u32(p, TALK_ZYGOTE);
    pack_text(p, plan->argv.items[0]);
    pack_texts(p, plan->env.items, plan->env_own);
    pack_u32(p, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        pack_text(p, imports[i]);
    plan_pack(p, plan);
}

static int begin(struct zygote_client *n, const struct plan *plan,
                 const struct zygote_options *options, struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };

    pack_question(&p, plan, options->imports);
    n->leash_fd = ask_send(KEPT_FD_native, &p, "start a zygote", err);
    pack_done(&p);
    if (n->leash_fd < 0 ||
        ask_hear(n->leash_fd, UP_MS, &heard, "start a zygote", err) < 0)
        return -1;
    n->number = unpack_u32(&heard.u);
    return unpack_finished(&heard.u) ? 0 : ask_gone(err, "start a zygote");
}

int zygote_client_open(const struct plan *plan, const struct zygote_options *options,
                       struct zygote **out, struct vial_error *err)
{
    struct zygote_client *n = calloc(1, sizeof(*n));

    if (!n)
        return fail_memory(err);
    n->leash_fd = -1;
    if (begin(n, plan, options, err) < 0) {
        zygote_client_close((struct zygote *)(void *)n);
        return -1;
    }
    *out = (struct zygote *)(void *)n;
    return 0;
}

int zygote_client_fork_into(struct zygote *zygote, struct vessel *vessel, int *fd,
                            uint32_t *pid, struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };
    int leash = kept_of(vessel)->leash_fd;
    struct pack p = { 0 };
    int rc;

    pack_u32(&p, TALK_FORK);
    pack_u32(&p, client_of(zygote)->number);
    rc = talk_send(leash, &p, NULL, 0);
    pack_done(&p);
    if (rc < 0)
        return ask_gone(err, "fork an interpreter into the vessel");
    if (ask_hear(leash, FORK_MS, &heard, "fork an interpreter into the vessel", err) <
        0)
        return -1;
    *pid = unpack_u32(&heard.u);
    if (!unpack_finished(&heard.u) || heard.fds.count != 1)
        return ask_gone(err, "fork an interpreter into the vessel");
    *fd = fd_take(&heard.fds.fd[0]);
    return 0;
}

void zygote_client_close(struct zygote *zygote)
{
    struct zygote_client *n = client_of(zygote);

    auto_fd_(&n->leash_fd);
    free(n);
}
