/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/client/volumes.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "keeper/client/ask.h"
#include "keeper/client/client.h"
#include "keeper/talk/report.h"
#include "keeper/talk/talk.h"

#define VOLUME_MS 120000 /* one with many files takes long to remove */
#define MOST_EVER 65536u

/* Takes P. */
static int ask(struct pack *p, const char *what, struct heard *out,
               struct vial_error *err)
{
    auto_fd int pair = ask_send(KEPT_FD_native, p, what, err);

    pack_done(p);
    return pair < 0 ? -1 : ask_hear(pair, VOLUME_MS, out, what, err);
}

static int ask_of(enum talk_verb verb, const char *name, const char *what,
                  struct heard *out, struct vial_error *err)
{
    struct pack p = { 0 };

    pack_u32(&p, verb);
    pack_text(&p, name);
    return ask(&p, what, out, err);
}

static int senseless(const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_KEEPER, "%s: the keeper's answer makes no sense", what);
}

/* The rows behind the last one that is there: how many came, or -1. */
static int add_rows(struct volume_info **rows, size_t *count, struct vial_error *err)
{
    static const char what[] = "list volumes";
    const char *last = *count ? (*rows)[*count - 1].name : "";
    auto_heard struct heard heard = { 0 };
    struct volume_info *grown;
    uint32_t more;

    if (ask_of(TALK_VOLUMES, last, what, &heard, err) < 0)
        return -1;
    more = unpack_u32(&heard.u);
    if (more > TALK_VOLUMES_MAX || *count + more > MOST_EVER)
        return senseless(what, err);
    grown = reallocarray(*rows, *count + more + 1, sizeof(*grown));
    if (!grown)
        return fail_memory(err);
    *rows = grown;
    for (uint32_t i = 0; i < more; i++)
        if (volume_unpack(&heard.u, &grown[*count + i]) < 0)
            return senseless(what, err);
    if (!unpack_finished(&heard.u))
        return senseless(what, err);
    *count += more;
    return (int)more;
}

int kept_volumes(struct volume_info **out, size_t *count, struct vial_error *err)
{
    auto_free struct volume_info *rows = NULL;
    size_t some = 0;
    int more;

    do
        more = add_rows(&rows, &some, err);
    while (more == (int)TALK_VOLUMES_MAX);
    if (more < 0)
        return -1;
    *out = ptr_take(&rows);
    *count = some;
    return 0;
}

int kept_volume(const char *name, struct volume_info *out, struct vial_error *err)
{
    static const char what[] = "look at a volume";
    auto_heard struct heard heard = { 0 };

    if (ask_of(TALK_VOLUME, name, what, &heard, err) < 0)
        return -1;
    return volume_unpack(&heard.u, out) < 0 || !unpack_finished(&heard.u)
               ? senseless(what, err)
               : 0;
}

int kept_volume_make(const char *name, const struct volume_terms *terms,
                     struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };

    pack_u32(&p, TALK_VOLUME_MAKE);
    pack_text(&p, name);
    pack_u32(&p, terms->many);
    pack_u64(&p, terms->size);
    return ask(&p, "make a volume", &heard, err);
}

int kept_volume_remove(const char *name, struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };

    return ask_of(TALK_VOLUME_REMOVE, name, "remove a volume", &heard, err);
}
