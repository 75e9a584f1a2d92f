/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "images/fetch/confine.h"
#include "images/fetch/digest.h"
#include "images/fetch/sums.h"
#include "images/fetch/unpack.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void layers_look(const struct work *w, struct image_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "layers/%s/sums", parts->layers[i].chain);
        parts->layers[i].here =
            faccessat(w->store_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
}

int layers_open(const struct work *w, const struct image_parts *parts, size_t count,
                struct lowers *out, struct vial_error *err)
{
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        char path[96];
        bool here = parts->layers[i].here;

        if (here)
            (void)snprintf(path, sizeof(path), "layers/%s/fs", parts->layers[i].chain);
        else
            (void)snprintf(path, sizeof(path), "layer-%zu/fs", i);
        out->fds[i] = openat(here ? w->store_fd : w->tmp_fd, path, OPEN_DIR);
        if (out->fds[i] < 0) {
            (void)fail_sys(err, "open the layer '%.12s'", parts->layers[i].chain);
            lowers_done(out);
            return -1;
        }
        out->count++;
    }
    return 0;
}

/* layer-N with an empty fs in it: a descriptor of the latter. */
static int make_place(const struct work *w, size_t index, struct vial_error *err)
{
    char path[32];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "layer-%zu", index);
    if (mkdirat(w->tmp_fd, path, 0700) < 0)
        return fail_sys(err, "make a directory for a layer");
    (void)snprintf(path, sizeof(path), "layer-%zu/fs", index);
    if (mkdirat(w->tmp_fd, path, 0755) == 0 &&
        (fd = openat(w->tmp_fd, path, OPEN_DIR)) >= 0 && fchmod(fd, 0755) == 0)
        return fd;
    auto_fd_(&fd);
    return fail_sys(err, "make a directory for a layer");
}

static int seal(const struct work *w, size_t index, int root_fd,
                const struct str *owners, struct vial_error *err)
{
    char path[40];
    auto_fd int fd = -1;
    char digest[STORE_DIGEST];
    int64_t bytes = 0;
    char size[32];

    (void)snprintf(path, sizeof(path), "layer-%zu/owners", index);
    if (work_put(w, path, owners->data ? owners->data : "", owners->len, err) < 0)
        return -1;
    digest_of(owners->data ? owners->data : "", owners->len, digest);
    (void)snprintf(path, sizeof(path), "layer-%zu/owners.sum", index);
    if (work_put(w, path, digest, strlen(digest), err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "layer-%zu/sums", index);
    fd = openat(w->tmp_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_sys(err, "write the sums of a layer");
    if (sums_write(root_fd, fd, &bytes, err) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "layer-%zu/size", index);
    (void)snprintf(size, sizeof(size), "%lld\n", (long long)bytes);
    return work_put(w, path, size, strlen(size), err);
}

static int unpack_one(const struct work *w, const struct image_parts *parts,
                      size_t index, struct unpack_limits *left, struct vial_error *err)
{
    const struct layer_part *layer = &parts->layers[index];
    struct lowers below = { .count = 0 };
    auto_str struct str owners = { 0 };
    auto_fd int blob_fd = -1;
    auto_fd int root_fd = -1;
    char diff_id[STORE_DIGEST];
    char path[32];
    int rc;

    (void)snprintf(path, sizeof(path), "blob-%zu", index);
    blob_fd = openat(w->tmp_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (blob_fd < 0)
        return fail_sys(err, "open a layer's archive");
    report_progress(layer->digest, "Extracting", 0, 0);
    root_fd = make_place(w, index, err);
    if (root_fd < 0 || layers_open(w, parts, index, &below, err) < 0)
        return -1;
    rc = unpack_layer(blob_fd, root_fd, &below, left, &owners, diff_id, err);
    lowers_done(&below);
    if (rc < 0)
        return -1;
    if (!str_eq(diff_id, layer->diff_id)) {
        (void)fail(err, VIAL_E_IMAGE_BAD,
                   "a layer has another content than its config says");
        return fail_cause(err, "%s, not %s", diff_id, layer->diff_id);
    }
    if (seal(w, index, root_fd, &owners, err) < 0)
        return -1;
    (void)unlinkat(w->tmp_fd, path, 0);
    report_progress(layer->digest,
                    str_eq(w->job->verb, "pull") ? "Pull complete" : "Import complete",
                    0, 0);
    return 0;
}

int layers_unpack(const struct work *w, void *context, struct vial_error *err)
{
    const struct image_parts *parts = context;
    struct unpack_limits left = { .bytes = w->job->max_bytes,
                                  .files = w->job->max_files };
    auto_fd int layers_fd = openat(w->store_fd, "layers", OPEN_DIR);
    const struct confinement c = { .owners = true,
                                   .read_fd = layers_fd,
                                   .max_bytes = w->job->max_bytes };

    if (layers_fd < 0)
        return fail_sys(err, "open the image store");
    if (confine_self(w, &c, err) < 0)
        return -1;
    for (size_t i = 0; i < parts->count; i++)
        if (!parts->layers[i].here && unpack_one(w, parts, i, &left, err) < 0)
            return -1;
    return 0;
}
