/* SPDX-License-Identifier: Apache-2.0 */

/* Makes, tells of and removes volumes for the front, which cannot enter their store. It
 * says for whom; the policy says what some caller may have, and the operator's settings
 * how many. */

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "keeper/root/check.h"
#include "keeper/root/keeper.h"
#include "keeper/talk/report.h"
#include "keeper/talk/talk.h"
#include "volumes/volume_store.h"

/* Of NAME, and TERMS where one is made. Adds to P, a good answer so far; -1 with ERR.
 */
typedef int volume_verb(const struct rules *rules, const char *name,
                        const struct volume_terms *terms, struct pack *p,
                        struct vial_error *err);

/* Those behind NAME, in their order; the front asks on behind the last. */
static int list(const struct rules *rules, const char *name,
                const struct volume_terms *terms, struct pack *p,
                struct vial_error *err)
{
    auto_free struct volume_info *rows = NULL;
    const struct volume_info *told[TALK_VOLUMES_MAX];
    size_t count = 0;
    uint32_t some = 0;

    (void)terms;
    if (!rules->volumes)
        return fail(err, VIAL_E_FILE, "there is no place for volumes");
    if (volume_list(rules->volumes, &rows, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count && some < TALK_VOLUMES_MAX; i++)
        if (strcmp(rows[i].name, name) > 0 &&
            check_volume(rules, rows[i].name, false, NULL) == 0)
            told[some++] = &rows[i];
    pack_u32(p, some);
    for (uint32_t i = 0; i < some; i++)
        volume_pack(p, told[i]);
    return 0;
}

static int look(const struct rules *rules, const char *name,
                const struct volume_terms *terms, struct pack *p,
                struct vial_error *err)
{
    struct volume_info row;

    (void)terms;
    if (check_volume(rules, name, false, err) < 0 ||
        volume_look(rules->volumes, name, &row, err) < 0)
        return -1;
    volume_pack(p, &row);
    return 0;
}

static int make(const struct rules *rules, const char *name,
                const struct volume_terms *terms, struct pack *p,
                struct vial_error *err)
{
    (void)p;
    return check_volume(rules, name, true, err) < 0
               ? -1
               : volume_create(rules->volumes, name, terms, err);
}

static int remove_named(const struct rules *rules, const char *name,
                        const struct volume_terms *terms, struct pack *p,
                        struct vial_error *err)
{
    (void)terms;
    (void)p;
    return check_volume(rules, name, true, err) < 0
               ? -1
               : volume_remove(rules->volumes, name, err);
}

static volume_verb *verb_of(uint32_t verb)
{
    switch (verb) {
    case TALK_VOLUMES:
        return list;
    case TALK_VOLUME:
        return look;
    case TALK_VOLUME_MAKE:
        return make;
    case TALK_VOLUME_REMOVE:
        return remove_named;
    default:
        return NULL;
    }
}

/* What comes behind the name, where one is made. */
static bool take_terms(const struct warden *w, struct unpack *u,
                       struct volume_terms *out)
{
    const struct settings *s = &w->keeper->rules.settings;
    bool makes = w->verb == TALK_VOLUME_MAKE;
    uint32_t many = makes ? unpack_u32(u) : 0;

    *out = (struct volume_terms){ .many = many == 1,
                                  .size = makes ? unpack_u64(u) : 0,
                                  .most_size = (uint64_t)s->volumes.caller_size,
                                  .most = (uint32_t)s->volumes.most,
                                  .most_of_owner = (uint32_t)s->volumes.caller };
    if (makes && !out->size)
        out->size = (uint64_t)s->volumes.size;
    return many <= 1 && unpack_finished(u);
}

bool volumes_serve(struct warden *w, struct vial_error *err)
{
    volume_verb *verb = verb_of(w->verb);
    auto_free char *name = verb ? unpack_text(&w->request) : NULL;
    struct volume_terms terms;
    struct pack p = { 0 };
    int rc;

    if (!verb)
        return false;
    pack_u32(&p, TALK_GOOD);
    rc = name && take_terms(w, &w->request, &terms)
             ? verb(&w->keeper->rules, name, &terms, &p, err)
             : fail(err, VIAL_E_VALUE, "the question for volumes is not understood");
    if (rc == 0) {
        warden_answer(w, &p, NULL, 0);
        return true;
    }
    pack_done(&p);
    warden_refuse(w, err);
    return true;
}
