/* SPDX-License-Identifier: Apache-2.0 */
#include "images/store_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/remove_tree.h"
#include "base/sys.h"
#include "images/image_name.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* An image as pruning sees it. */
struct candidate {
    char digest[STORE_DIGEST];
    int64_t used, size;
    bool named;
};

/* Out of PATH, at once, and then from the disk. */
static int throw_away(int store_fd, const char *path, struct vial_error *err)
{
    char id[24];
    char to[40];

    sys_make_id('r', id);
    (void)snprintf(to, sizeof(to), "tmp/%s", id);
    if (renameat(store_fd, path, store_fd, to) < 0)
        return fail_sys(err, "remove '%s' of the image store", path);
    remove_tree(store_fd, to);
    return 0;
}

static int open_store(const char *store_dir, const char *what, struct vial_error *err)
{
    int fd = open(store_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : fail_sys(err, "open the image store '%s'", store_dir);
    return fail(err, VIAL_E_IMAGE, "there is no image '%s' here", what);
}

/* Keeps vessels out, and fails if there is one. */
static int remove_image(int store_fd, const char *digest, const char *reference,
                        struct vial_error *err)
{
    char path[sizeof("images/") + 64];
    auto_fd int fd = -1;

    (void)snprintf(path, sizeof(path), "images/%s", digest + strlen("sha256:"));
    fd = openat(store_fd, path, OPEN_DIR);
    if (fd < 0)
        return fail(err, VIAL_E_IMAGE, "there is no image '%s' here", reference);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        (void)fail(err, VIAL_E_BUSY, "image '%s' is in use", reference);
        return fail_remedy(err, "end what runs on it first: 'vial ps'");
    }
    return throw_away(store_fd, path, err);
}

static int drop_name(int store_fd, const char *name, struct vial_error *err)
{
    auto_free char *file = store_name_file(name, err);
    auto_str struct str path = { 0 };

    if (!file)
        return -1;
    str_printf(&path, "names/%s", file);
    if (!str_ok(&path))
        return fail_memory(err);
    return unlinkat(store_fd, path.data, 0) < 0 && errno != ENOENT
               ? fail_sys(err, "remove the name '%s'", name)
               : 0;
}

static int collect_chains(const char *store_dir, struct strv *chains,
                          struct vial_error *err)
{
    auto_strv struct strv digests = { 0 };

    if (store_digests(store_dir, &digests, err) < 0)
        return -1;
    for (size_t i = 0; i < digests.count; i++) {
        auto_stored struct stored_image image = STORED_IMAGE_NONE;

        /* Fail closed: of an image that cannot be read, nobody knows the layers. */
        if (store_look(store_dir, digests.items[i], &image, err) < 0)
            return -1;
        strv_copy(chains, &image.chains);
    }
    return chains->failed ? fail_memory(err) : 0;
}

static int64_t layer_size(int store_fd, const char *chain)
{
    char path[96];
    char text[32] = "";

    (void)snprintf(path, sizeof(path), "layers/%.64s/size", chain);
    return io_read_at(store_fd, path, text, sizeof(text)) > 0 ? strtoll(text, NULL, 10)
                                                              : 0;
}

/* Layers of no image; not while somebody adds one, who may count on them. */
static int remove_layers(const char *store_dir, int store_fd, struct store_removed *out,
                         struct vial_error *err)
{
    auto_fd int lock_fd = openat(store_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    auto_strv struct strv chains = { 0 };
    const struct dirent *entry;
    DIR *dir = NULL;
    int rc = 0;
    int fd;

    if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return lock_fd < 0 ? fail_sys(err, "lock the image store") : 0;
    if (collect_chains(store_dir, &chains, err) < 0)
        return -1;
    fd = openat(store_fd, "layers", OPEN_DIR);
    dir = fd < 0 ? NULL : fdopendir(fd);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (rc == 0 && dir && (entry = readdir(dir))) {
        char path[96];

        if (entry->d_name[0] == '.' || strv_has(&chains, entry->d_name))
            continue;
        (void)snprintf(path, sizeof(path), "layers/%.64s", entry->d_name);
        out->bytes += layer_size(store_fd, entry->d_name);
        rc = throw_away(store_fd, path, err);
    }
    if (dir)
        (void)closedir(dir);
    return rc;
}

/* *COUNT is how many names DIGEST has; with DROP they go. */
static int count_names(const char *store_dir, int store_fd, const char *digest,
                       bool drop, size_t *count, struct vial_error *err)
{
    struct store_names names = { 0 };
    int rc = store_names(store_dir, &names, err);

    *count = 0;
    for (size_t i = 0; rc == 0 && i < names.names.count; i++) {
        if (!str_eq(names.digests.items[i], digest))
            continue;
        (*count)++;
        if (drop)
            rc = drop_name(store_fd, names.names.items[i], err);
    }
    store_names_done(&names);
    return rc;
}

int store_remove(const char *store_dir, const char *reference,
                 struct store_removed *out, struct vial_error *err)
{
    auto_fd int store_fd = open_store(store_dir, reference, err);
    struct stored_image image = STORED_IMAGE_NONE;
    bool by_name = !image_is_digest(reference);
    char digest[STORE_DIGEST];
    size_t left = 0;

    *out = (struct store_removed){ 0 };
    if (store_fd < 0 || store_look(store_dir, reference, &image, err) < 0)
        return -1;
    (void)snprintf(digest, sizeof(digest), "%s", image.digest);
    stored_image_done(&image);
    /* A last name goes after the image: one that is in use keeps it. */
    if (by_name && count_names(store_dir, store_fd, digest, false, &left, err) < 0)
        return -1;
    if (by_name && left > 1)
        return drop_name(store_fd, reference, err);
    if (remove_image(store_fd, digest, reference, err) < 0 ||
        count_names(store_dir, store_fd, digest, true, &left, err) < 0)
        return -1;
    out->images = 1;
    return remove_layers(store_dir, store_fd, out, err);
}

static int compare_used(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;

    return x->used < y->used ? -1 : x->used > y->used;
}

static int collect(const char *store_dir, struct candidate **out, size_t *count,
                   struct vial_error *err)
{
    auto_strv struct strv digests = { 0 };
    struct store_names names = { 0 };
    int rc = store_digests(store_dir, &digests, err);

    rc = rc < 0 ? rc : store_names(store_dir, &names, err);
    *count = 0;
    *out = calloc(digests.count + 1, sizeof(**out));
    for (size_t i = 0; rc == 0 && *out && i < digests.count; i++) {
        auto_stored struct stored_image image = STORED_IMAGE_NONE;
        struct candidate *c = &(*out)[*count];

        if (store_look(store_dir, digests.items[i], &image, NULL) < 0)
            continue;
        (void)snprintf(c->digest, sizeof(c->digest), "%s", image.digest);
        c->used = image.used;
        c->size = image.size;
        c->named = strv_has(&names.digests, image.digest);
        (*count)++;
    }
    store_names_done(&names);
    if (rc == 0 && *out)
        qsort(*out, *count, sizeof(**out), compare_used);
    return rc == 0 && !*out ? fail_memory(err) : rc;
}

static bool is_to_go(const struct candidate *c, const struct store_prune *rules,
                     int64_t total)
{
    bool old = rules->unused_for_s > 0 && time(NULL) - c->used >= rules->unused_for_s;
    bool large = rules->max_bytes > 0 && total > rules->max_bytes;

    return !c->named || rules->all || old || large;
}

void store_sweep(int store_fd)
{
    int fd = openat(store_fd, "tmp", OPEN_DIR);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (dir && (entry = readdir(dir))) {
        auto_fd int one = -1;

        if (entry->d_name[0] == '.')
            continue;
        one = openat(fd, entry->d_name, OPEN_DIR);
        if (one >= 0 && flock(one, LOCK_EX | LOCK_NB) == 0)
            remove_tree(fd, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
}

int store_prune(const char *store_dir, const struct store_prune *rules,
                struct store_removed *out, struct vial_error *err)
{
    struct candidate *found = NULL;
    struct vial_error none = { 0 };
    auto_fd int store_fd = open_store(store_dir, "", &none);
    int64_t total = 0;
    size_t count = 0;
    size_t left = 0;
    int rc;

    *out = (struct store_removed){ 0 };
    if (store_fd < 0) /* nothing is there, so nothing goes */
        return 0;
    rc = collect(store_dir, &found, &count, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        total += found[i].size;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (!is_to_go(&found[i], rules, total) ||
            remove_image(store_fd, found[i].digest, "", NULL) < 0)
            continue;
        total -= found[i].size;
        out->images++;
        rc = count_names(store_dir, store_fd, found[i].digest, true, &left, err);
    }
    free(found);
    store_sweep(store_fd);
    return rc < 0 ? -1 : remove_layers(store_dir, store_fd, out, err);
}
