/* SPDX-License-Identifier: Apache-2.0 */
#include "images/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/state.h"
#include "images/image_name.h"
#include "images/record.h"

#define RECORD_MAX ((size_t)1 << 20)
#define LISTED_MAX 100000

char *store_path(const char *chosen, const char *home)
{
    const char *named = getenv("VIAL_IMAGES"); /* NOLINT(concurrency-mt-unsafe) */

    if (named && named[0] == '/')
        return strdup(named);
    if (chosen)
        return strdup(chosen);
    return state_data_path("images", home);
}

static int not_here(const char *reference, struct vial_error *err)
{
    (void)fail(err, VIAL_E_IMAGE, "there is no image '%s' here", reference);
    return fail_remedy(err, "pull it: 'vial image pull %.160s'", reference);
}

static int open_store(const char *store_dir, struct vial_error *err)
{
    static const struct state_store kind = { .name = "the image store",
                                             .variable = "VIAL_IMAGES",
                                             .closed = 022,
                                             .roots_too = true };

    return state_open_store(store_dir, &kind, err);
}

char *store_name_file(const char *reference, struct vial_error *err)
{
    auto_str struct str out = { 0 };
    struct image_name name;

    if (image_parse(reference, &name, err) < 0)
        return NULL;
    for (const char *c = name.name; *c; c++)
        if (*c == '/')
            str_puts(&out, "%2F");
        else
            str_putc(&out, *c);
    str_printf(&out, "%c%s", name.pinned ? '@' : ':', name.tag);
    if (!str_ok(&out)) {
        (void)fail_memory(err);
        return NULL;
    }
    if (out.len <= NAME_MAX)
        return str_take(&out);
    (void)fail(err, VIAL_E_IMAGE, "the image's name '%.80s…' is too long", reference);
    return NULL;
}

/* names/FILE of the store, which says "sha256:…". */
static bool read_name(int store_fd, const char *file, char digest[STORE_DIGEST])
{
    char path[NAME_MAX + 8];
    char text[STORE_DIGEST + 8];

    (void)snprintf(path, sizeof(path), "names/%s", file);
    if (io_read_at(store_fd, path, text, sizeof(text)) <= 0 || !image_is_digest(text))
        return false;
    (void)snprintf(digest, STORE_DIGEST, "%.71s", text);
    return true;
}

/* 0, and *DIGEST "" where nothing is called so. */
static int resolve(int store_fd, const char *reference, char digest[STORE_DIGEST],
                   struct vial_error *err)
{
    auto_free char *file = NULL;
    const char *at = strchr(reference, '@');

    digest[0] = '\0';
    if (image_is_digest(reference)) {
        (void)snprintf(digest, STORE_DIGEST, "%s", reference);
        return 0;
    }
    file = store_name_file(reference, err);
    if (!file)
        return -1;
    if (!read_name(store_fd, file, digest))
        (void)snprintf(digest, STORE_DIGEST, "%s", at ? at + 1 : "");
    return 0;
}

/* Its directory with a shared lock; -1: it is not here, or is just being removed. */
static int lock_image(int store_fd, const char *digest)
{
    char path[sizeof("images/") + 64];
    auto_fd int fd = -1;

    (void)snprintf(path, sizeof(path), "images/%s", digest + strlen("sha256:"));
    fd = openat(store_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -1;
    return fd_take(&fd);
}

static int add_lowers(int store_fd, const char *store_dir, struct stored_image *image,
                      struct vial_error *err)
{
    for (size_t i = image->chains.count; i > 0; i--) {
        char path[sizeof("layers//fs") + 64];
        struct stat st;

        (void)snprintf(path, sizeof(path), "layers/%s/fs", image->chains.items[i - 1]);
        if (fstatat(store_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(st.st_mode)) {
            (void)fail(err, VIAL_E_FILE, "the image store has lost the layer '%.12s'",
                       image->chains.items[i - 1]);
            return fail_remedy(err, "remove the image and pull it again");
        }
        strv_printf(&image->lowers, "%s/%s", store_dir, path);
    }
    return strv_ok(&image->lowers) ? 0 : fail_memory(err);
}

/* 1: it has gone. */
static int read_record(struct stored_image *image, struct vial_error *err)
{
    auto_fd int fd = openat(image->lock_fd, "record", O_RDONLY | O_CLOEXEC);
    struct blob text = { 0 };
    struct stat st;
    int rc;

    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 || fstat(image->lock_fd, &st) < 0)
        return fail_sys(err, "open its record");
    if (io_read_fd(fd, "record", RECORD_MAX, &text, err) < 0)
        return -1;
    rc = record_read(text.data ? text.data : "", image, err);
    image->used = st.st_mtime;
    blob_done(&text);
    return rc;
}

static int load(int store_fd, const char *store_dir, const char *reference,
                const char *digest, struct stored_image *out, struct vial_error *err)
{
    int rc;

    out->lock_fd = digest[0] ? lock_image(store_fd, digest) : -1;
    if (out->lock_fd < 0)
        return not_here(reference, err);
    rc = read_record(out, err);
    if (rc > 0)
        return not_here(reference, err);
    if (rc == 0 && !str_eq(out->digest, digest))
        rc = fail(err, VIAL_E_FILE, "its record is another image's");
    if (rc < 0 || add_lowers(store_fd, store_dir, out, err) < 0)
        return fail_in(err, "image '%s'", reference);
    return 0;
}

int store_look(const char *store_dir, const char *reference, struct stored_image *out,
               struct vial_error *err)
{
    struct stored_image image = STORED_IMAGE_NONE;
    struct vial_error why = { 0 };
    auto_fd int store_fd = open_store(store_dir, &why);
    char digest[STORE_DIGEST];

    if (store_fd < 0 && state_is_absent(&why))
        return not_here(reference, err);
    if (store_fd < 0) {
        if (err)
            *err = why;
        return -1;
    }
    if (resolve(store_fd, reference, digest, err) < 0)
        return -1;
    if (load(store_fd, store_dir, reference, digest, &image, err) < 0) {
        stored_image_done(&image);
        return -1;
    }
    *out = image;
    return 0;
}

int store_find(const char *store_dir, const char *reference, struct stored_image *out,
               struct vial_error *err)
{
    if (store_look(store_dir, reference, out, err) < 0)
        return -1;
    /* For who removes images that were not used for long; may fail, being a help. */
    (void)futimens(out->lock_fd, NULL);
    return 0;
}

void stored_image_done(struct stored_image *image)
{
    struct strv *lists[] = { &image->lowers, &image->env,     &image->entrypoint,
                             &image->cmd,    &image->imports, &image->chains };

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        strv_done(lists[i]);
    free(image->cwd);
    free(image->user);
    free(image->template_pool);
    auto_fd_(&image->lock_fd);
    *image = (struct stored_image)STORED_IMAGE_NONE;
}

/* Calls EACH for every name in directory DIR of the store; none: there is no such
 * directory. */
static int each_name(const char *store_dir, const char *name, void *context,
                     void (*each)(void *context, int store_fd, const char *name),
                     struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_fd int store_fd = open_store(store_dir, &why);
    const struct dirent *entry;
    DIR *dir;
    int fd;

    if (store_fd < 0 && !state_is_absent(&why) && err)
        *err = why;
    if (store_fd < 0)
        return state_is_absent(&why) ? 0 : -1;
    fd = openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return errno == ENOENT ? 0 : fail_sys(err, "open '%s/%s'", store_dir, name);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    for (size_t i = 0; i < LISTED_MAX && (entry = readdir(dir)); i++)
        if (entry->d_name[0] != '.')
            each(context, store_fd, entry->d_name);
    (void)closedir(dir);
    return 0;
}

static void add_digest(void *context, int store_fd, const char *name)
{
    (void)store_fd;
    strv_printf(context, "sha256:%s", name);
}

int store_digests(const char *store_dir, struct strv *out, struct vial_error *err)
{
    if (each_name(store_dir, "images", out, add_digest, err) < 0)
        return -1;
    return out->failed ? fail_memory(err) : 0;
}

static void add_name(void *context, int store_fd, const char *file)
{
    struct store_names *out = context;
    auto_str struct str name = { 0 };
    char digest[STORE_DIGEST];

    for (const char *c = file; *c; c++) {
        bool slash = strncmp(c, "%2F", 3) == 0;

        str_putc(&name, slash ? '/' : *c);
        c += slash ? 2 : 0;
    }
    if (!str_ok(&name) || !name.data || !read_name(store_fd, file, digest))
        return;
    strv_push(&out->names, name.data);
    strv_push(&out->digests, digest);
}

int store_names(const char *store_dir, struct store_names *out, struct vial_error *err)
{
    if (each_name(store_dir, "names", out, add_name, err) < 0)
        return -1;
    return out->names.failed || out->digests.failed ? fail_memory(err) : 0;
}

void store_names_done(struct store_names *names)
{
    strv_done(&names->names);
    strv_done(&names->digests);
}
