/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_STORE_H
#define VIAL_IMAGES_STORE_H

/* clang-format off */
/*
 * The store of images that need no container engine. It belongs to one user (root's is
 * shared by all vessels of a daemon), whose directory nobody else can enter:
 *
 *   names/NAME:TAG       a digest; "/" in a name stands as "%2F"
 *   images/HEX/          HEX: of the manifest's digest
 *     record             what a vessel needs to know (images/record.h), without JSON
 *     manifest, config   as they came
 *   layers/CHAIN/        CHAIN: of the layer's chain, so that what it is stands on is fixed
 *     fs/                the layer's tree, as overlayfs wants it
 *     sums, owners       what `vial image verify` compares, and whose files they were
 *   locks/               locks of pulls
 *   tmp/                 what is being made; each directory in it is locked by its maker
 *   lock                 shared by who adds, exclusive for who removes layers
 *
 * What stands in images and layers is whole: it was made in tmp, synced, and renamed. A
 * record comes last. vial-image (src/images/fetch) writes; this room reads and removes.
 * Nothing here speaks JSON, for the keeper uses it.
 */
/* clang-format on */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

#define STORE_DIGEST 72 /* "sha256:", 64 digits and a NUL */

struct stored_image {
    char digest[STORE_DIGEST]; /* of its manifest */
    char id[STORE_DIGEST];     /* of its config */
    char platform[64];         /* "linux/amd64" */
    struct strv lowers; /* absolute directories, topmost first, for overlayfs; several
                           of them may be longer than a mount's options: go by
                           /proc/self/fd/N */
    bool user_xattr;    /* opaque directories are marked by user.overlay.*: mount with
                           `userxattr`. Whiteouts are character devices 0/0 in any case */
    bool owners_kept; /* the files belong to the image's own numbers, 0 … 65535; else
                         all to who unpacked them, and setuid bits are gone */
    int64_t size;     /* bytes on disk, all layers */
    int64_t created,
        used; /* seconds since the epoch: when it came, and was last found */

    /* Of its config, judged within bounds (images/image_config.h). */
    struct strv env;             /* "NAME=VALUE" */
    struct strv entrypoint, cmd; /* for programs that are not named by a request */
    char *cwd;                   /* clean and absolute, or NULL */
    char *user;                  /* as it stands there, or NULL */
    unsigned uid, gid;           /* the same in numbers; 0: root, a name, or nobody */

    char *template_pool; /* a template made it: how many vessels wait, "0" being as many
                            as of others; NULL: none did */
    struct strv imports; /* that template's: modules for a Python that waits */

    struct strv chains; /* of its layers, lowest first */
    int lock_fd;        /* while it is open, nobody removes the image or its layers. It
                           may be inherited or sent to another process */
};

/* VIAL_IMAGES; CHOSEN, from the settings, or NULL; /var/lib/vial/images for root;
 * vial/images below XDG_DATA_HOME or HOME's .local/share. malloc'ed; NULL: no place, or
 * no memory. */
char *store_path(const char *chosen, const char *home);

/* The image that REFERENCE means: "name", "name:tag", "name@sha256:…" or "sha256:…".
 * VIAL-IMAGE: there is none here, so that it could be pulled. It is locked until
 * stored_image_done. */
int store_find(const char *store_dir, const char *reference, struct stored_image *out,
               struct vial_error *err);
/* The same without counting as a use. */
int store_look(const char *store_dir, const char *reference, struct stored_image *out,
               struct vial_error *err);
void stored_image_done(struct stored_image *image);
#define auto_stored __attribute__((cleanup(stored_image_done)))
#define STORED_IMAGE_NONE                                                              \
    {                                                                                  \
        .lock_fd = -1                                                                  \
    }

/* The digests of all images; the names that they have, each with its digest. */
int store_digests(const char *store_dir, struct strv *out, struct vial_error *err);
struct store_names {
    struct strv names, digests; /* of the same count */
};
int store_names(const char *store_dir, struct store_names *out, struct vial_error *err);
void store_names_done(struct store_names *names);

/* The file that NAME has in names/; malloc'ed, NULL without memory. */
char *store_name_file(const char *reference, struct vial_error *err);

#endif
