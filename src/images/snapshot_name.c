/* SPDX-License-Identifier: Apache-2.0 */
#include "images/snapshot_name.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/sha256.h"
#include "base/sys.h"
#include "images/image_name.h"
#include "images/store.h"

#define MOST      32 /* of one owner */
#define OWNER     8  /* digits */
#define TAG_BYTES 16
#define WORD_MAX  128
#define HEX       "0123456789abcdef"

static const char *const kinds[] = { "snapshot/", "fork/" };

static void owner_digits(const char *owner, char out[65])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, owner, strlen(owner));
    sha256_text(&h, out);
    out[OWNER] = '\0';
}

int snapshot_name_make(bool forks, const char *owner, const char *name, struct str *out,
                       struct vial_error *err)
{
    unsigned char chance[TAG_BYTES];
    struct image_name parsed;
    char digits[65];

    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(name) ||
        strlen(name) > WORD_MAX || image_parse(name, &parsed, NULL) < 0)
        return fail(err, VIAL_E_VALUE,
                    "a snapshot's name '%.80s' is not of letters a-z, digits, '.', '_' "
                    "and '-', %d at most",
                    name, WORD_MAX);
    if (sys_random(chance, sizeof(chance)) < 0)
        return fail_sys(err, "get random bytes");
    owner_digits(owner, digits);
    str_printf(out, "%s%s/%s:", kinds[forks], digits, name);
    for (size_t i = 0; i < sizeof(chance); i++)
        str_printf(out, "%02x", chance[i]);
    return str_ok(out) ? 0 : fail_memory(err);
}

/* Behind the kind; NULL: it is none of these. */
static const char *behind_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return name + strlen(kinds[i]);
    return NULL;
}

bool snapshot_name_ok(const char *name)
{
    const char *owner = behind_kind(name);
    const char *tag = strrchr(name, ':');
    struct image_name parsed;

    return owner && strspn(owner, HEX) == OWNER && owner[OWNER] == '/' && tag &&
           strspn(tag + 1, HEX) == (size_t)2 * TAG_BYTES &&
           tag[1 + 2 * TAG_BYTES] == '\0' && !strchr(owner + OWNER + 1, '/') &&
           image_parse(name, &parsed, NULL) == 0 && !parsed.pinned;
}

bool snapshot_name_forks(const char *name)
{
    return strncmp(name, kinds[1], strlen(kinds[1])) == 0 && snapshot_name_ok(name);
}

bool snapshot_name_is_of(const char *name, const char *owner)
{
    char digits[65];

    owner_digits(owner, digits);
    return snapshot_name_ok(name) && strncmp(behind_kind(name), digits, OWNER) == 0;
}

int snapshot_name_count(const char *store_dir, const char *name, struct vial_error *err)
{
    const char *owner = behind_kind(name);
    size_t len = owner ? (size_t)(owner - name) + OWNER + 1 : 0;
    struct store_names all = { 0 };
    unsigned count = 0;
    int rc = store_names(store_dir, &all, err);

    for (size_t i = 0; rc == 0 && i < all.names.count; i++)
        count += strncmp(all.names.items[i], name, len) == 0;
    store_names_done(&all);
    if (rc < 0 || count < MOST)
        return rc;
    (void)fail(err, VIAL_E_CAP, "its owner has %u snapshots, and may not have more",
               count);
    return fail_remedy(err, "remove one: 'vial session forget NAME'");
}

int snapshot_names(const char *store_dir, const char *owner, struct strv *out,
                   struct vial_error *err)
{
    struct store_names all = { 0 };
    int rc = store_names(store_dir, &all, err);

    for (size_t i = 0; rc == 0 && i < all.names.count; i++)
        if (snapshot_name_is_of(all.names.items[i], owner) &&
            !snapshot_name_forks(all.names.items[i]))
            strv_push(out, all.names.items[i]);
    store_names_done(&all);
    if (rc == 0 && out->failed)
        return fail_memory(err);
    return rc;
}
