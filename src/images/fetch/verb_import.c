/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An image comes from an archive or a directory: the tar of a root, an OCI layout, or
 * what `docker save` wrote. A stage finds out which, and lays manifest, config and
 * blobs into the work's directory, as a pull does; from there on both are the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/sys.h"
#include "images/fetch/confine.h"
#include "images/fetch/digest.h"
#include "images/fetch/entry_path.h"
#include "images/fetch/image_registry.h"
#include "images/fetch/layers.h"
#include "images/fetch/manifest.h"
#include "images/fetch/tar_stream.h"
#include "images/fetch/verbs.h"

#define MEMBERS_MAX 20000
#define NESTED      4 /* indexes in indexes */
#define NAMES_MAX   64
#define PIECE       (128u << 10)

/* The files of an image in pieces. */
struct source {
    const struct work *w;
    int dir_fd;        /* a layout's directory, or -1: */
    struct strv names; /* of an archive's members; the N-th is the file "member-N", … */
    struct strv targets; /* … or "" and another name: a link to that */
    json_t *tags;        /* what the archive calls the image */
};

static int bad(const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_IMAGE_BAD, "%s", what);
}

static int copy_fd(int from, int to, int64_t max, char digest[STORE_DIGEST],
                   int64_t *size, struct vial_error *err)
{
    auto_digest struct digest d = { 0 };
    auto_free char *piece = malloc(PIECE);
    ssize_t n = -1;

    *size = 0;
    digest_begin(&d);
    while (piece && (n = read(from, piece, PIECE)) > 0) {
        *size += n;
        if (*size > max)
            return bad("it is larger than an image may be (max_size)", err);
        digest_add(&d, piece, (size_t)n);
        if (io_write_all(to, piece, (size_t)n) < 0)
            return fail_sys(err, "write to the image store");
    }
    if (!piece || n < 0)
        return fail_sys(err, "read the image");
    digest_end(&d, digest);
    return 0;
}

static int create(const struct work *w, const char *name)
{
    return openat(w->tmp_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int open_member(const struct source *s, const char *name, int depth)
{
    for (size_t i = s->names.count; i > 0; i--) {
        char file[32];

        if (!str_eq(s->names.items[i - 1], name))
            continue;
        if (s->targets.items[i - 1][0])
            return depth < NESTED ? open_member(s, s->targets.items[i - 1], depth + 1)
                                  : -1;
        (void)snprintf(file, sizeof(file), "member-%zu", i - 1);
        return openat(s->w->tmp_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    }
    errno = ENOENT;
    return -1;
}

static int open_file(const struct source *s, const char *name)
{
    int fd;

    if (s->dir_fd < 0)
        return open_member(s, name, 0);
    fd = sys_openat2(s->dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0,
                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        errno = -fd;
    return fd < 0 ? -1 : fd;
}

static int read_file(const struct source *s, const char *name, struct blob *out,
                     struct vial_error *err)
{
    auto_fd int fd = open_file(s, name);

    if (fd < 0)
        return fail(err, VIAL_E_IMAGE_BAD, "the archive has no '%.120s'", name);
    if (io_read_fd(fd, name, CONFIG_MAX, out, err) < 0)
        return fail_as(err, VIAL_E_IMAGE_BAD);
    return 0;
}

static int read_object(const struct source *s, const char *name, const char *digest,
                       json_t **out, const char *save_as, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc = read_file(s, name, &text, err);

    rc = rc < 0 ? rc : manifest_parse(&text, digest, name, out, err);
    if (rc == 0 && save_as)
        rc = work_put(s->w, save_as, text.data, text.len, err);
    blob_done(&text);
    return rc;
}

/* A layer's archive becomes blob-INDEX. */
static int place_blob(const struct source *s, const char *name, size_t index,
                      char digest[STORE_DIGEST], int64_t *size, struct vial_error *err)
{
    auto_fd int from = open_file(s, name);
    auto_fd int to = -1;
    char path[32];

    if (from < 0)
        return fail(err, VIAL_E_IMAGE_BAD, "the archive has no '%.120s'", name);
    (void)snprintf(path, sizeof(path), "blob-%zu", index);
    to = create(s->w, path);
    if (to < 0)
        return fail_sys(err, "write to the image store");
    return copy_fd(from, to, s->w->job->max_bytes, digest, size, err);
}

static void add_tag(struct source *s, const char *tag)
{
    struct image_name name;

    if (tag && strlen(tag) < 250 && json_array_size(s->tags) < NAMES_MAX &&
        image_parse(tag, &name, NULL) == 0)
        (void)json_array_append_new(s->tags, json_string(tag));
}

static void blob_path(const char *digest, char out[96])
{
    (void)snprintf(out, 96, "blobs/sha256/%s", digest + strlen("sha256:"));
}

static void take_annotations(struct source *s, json_t *index, const char *digest)
{
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(index, "manifests"), i, entry)
    {
        json_t *notes = json_object_get(entry, "annotations");
        const char *full =
            json_string_value(json_object_get(notes, "io.containerd.image.name"));

        if (str_eq(json_string_value(json_object_get(entry, "digest")), digest))
            add_tag(s, full ? full
                            : json_string_value(json_object_get(
                                  notes, "org.opencontainers.image.ref.name")));
    }
}

static int take_layout(struct source *s, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_json json_t *root = NULL;
    auto_json json_t *config = NULL;
    char digest[STORE_DIGEST] = "";
    char path[96] = "index.json";
    int64_t size = 0;

    if (!parts)
        return fail_memory(err);
    for (int depth = 0;; depth++) {
        char chosen[STORE_DIGEST];

        if (depth > NESTED)
            return bad("it has indexes in indexes", err);
        json_decref(root);
        root = NULL;
        if (read_object(s, path, digest, &root, "manifest", err) < 0 ||
            manifest_choose(root, s->w->job, chosen, &size, err) < 0)
            return -1;
        if (!chosen[0])
            break;
        if (depth == 0)
            take_annotations(s, root, chosen);
        (void)snprintf(digest, sizeof(digest), "%s", chosen);
        blob_path(digest, path);
    }
    if (manifest_read(root, s->w->job, parts, err) < 0)
        return -1;
    blob_path(parts->config, path);
    if (read_object(s, path, parts->config, &config, "config", err) < 0)
        return -1;
    for (size_t i = 0; i < parts->count; i++) {
        blob_path(parts->layers[i].digest, path);
        if (place_blob(s, path, i, digest, &size, err) < 0)
            return -1;
        if (!str_eq(digest, parts->layers[i].digest))
            return bad("a layer came with another digest", err);
    }
    return 0;
}

static int put_manifest(const struct work *w, const struct image_parts *parts,
                        struct vial_error *err)
{
    auto_free char *text = NULL;

    if (manifest_make(parts, &text, err) < 0)
        return -1;
    return work_put(w, "manifest", text, strlen(text), err);
}

/* What `docker save` writes: a list of images, of which the first is taken. */
static int take_saved(struct source *s, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_json json_t *list = NULL;
    struct blob text = { 0 };
    json_t *image;
    json_t *layers;
    const char *config;
    json_t *tag = NULL;
    size_t i = 0;
    int rc = parts ? read_file(s, "manifest.json", &text, err) : fail_memory(err);

    rc = rc < 0 ? rc : json_parse(text.data, text.len, "manifest.json", &list, err);
    blob_done(&text);
    if (rc < 0)
        return fail_as(err, VIAL_E_IMAGE_BAD);
    if (json_array_size(list) != 1)
        return bad("the archive has several images, or none: save one by one", err);
    image = json_array_get(list, 0);
    config = json_string_value(json_object_get(image, "Config"));
    layers = json_object_get(image, "Layers");
    if (!config || json_array_size(layers) == 0 || json_array_size(layers) > LAYERS_MAX)
        return bad("its manifest is of a form not known here", err);
    if (read_file(s, config, &text, err) < 0)
        return -1;
    digest_of(text.data ? text.data : "", text.len, parts->config);
    parts->config_size = (int64_t)text.len;
    rc = work_put(s->w, "config", text.data ? text.data : "", text.len, err);
    blob_done(&text);
    for (parts->count = 0; rc == 0 && parts->count < json_array_size(layers);
         parts->count++) {
        struct layer_part *l = &parts->layers[parts->count];
        const char *name = json_string_value(json_array_get(layers, parts->count));

        rc = place_blob(s, name ? name : "", parts->count, l->digest, &l->size, err);
    }
    json_array_foreach(json_object_get(image, "RepoTags"), i, tag)
    {
        add_tag(s, json_string_value(tag));
    }
    return rc < 0 ? -1 : put_manifest(s->w, parts, err);
}

/* The tar of a root is the one layer of an image of ours. */
static int take_root(struct source *s, int64_t size, const char *digest,
                     const char *diff_id, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_json json_t *config = NULL;
    auto_free char *text = NULL;

    if (!parts)
        return fail_memory(err);
    config = json_pack("{s:s, s:s, s:{}, s:{s:s, s:[s]}}", "architecture",
                       s->w->job->arch, "os", s->w->job->os, "config", "rootfs", "type",
                       "layers", "diff_ids", diff_id);
    text = config ? json_dumps(config, JSON_COMPACT) : NULL;
    if (!text || renameat(s->w->tmp_fd, "input", s->w->tmp_fd, "blob-0") < 0)
        return fail_memory(err);
    digest_of(text, strlen(text), parts->config);
    parts->config_size = (int64_t)strlen(text);
    parts->count = 1;
    (void)snprintf(parts->layers[0].digest, STORE_DIGEST, "%s", digest);
    parts->layers[0].size = size;
    if (work_put(s->w, "config", text, strlen(text), err) < 0)
        return -1;
    return put_manifest(s->w, parts, err);
}

enum form { FORM_ROOT, FORM_LAYOUT, FORM_SAVED };

/* Reads it all once: what it is, and the digest of its tar. */
static int look(int fd, int64_t max, enum form *form, char diff_id[STORE_DIGEST],
                struct vial_error *err)
{
    struct archive_entry *entry = NULL;
    struct tar_stream t = { 0 };
    bool layout = false;
    bool index = false;
    bool saved = false;
    int rc = tar_stream_open(&t, fd, max, err);

    while (rc == 0 && (rc = tar_stream_next(&t, &entry, err)) > 0) {
        const char *name = archive_entry_pathname(entry);

        name = name && str_starts(name, "./") ? name + 2 : name;
        layout = layout || str_eq(name, "oci-layout");
        index = index || str_eq(name, "index.json");
        saved = saved || str_eq(name, "manifest.json");
        rc = 0;
    }
    rc = rc < 0 ? rc : tar_stream_end(&t, diff_id, err);
    tar_stream_done(&t);
    *form = layout && index ? FORM_LAYOUT : saved ? FORM_SAVED : FORM_ROOT;
    return rc;
}

static int take_member(struct source *s, struct tar_stream *t, struct archive_entry *e,
                       int64_t *left, struct vial_error *err)
{
    const char *said = archive_entry_pathname(e);
    const char *linked =
        archive_entry_symlink(e) ? archive_entry_symlink(e) : archive_entry_hardlink(e);
    char path[PATH_MAX];
    char file[32];
    auto_fd int fd = -1;
    int64_t size = archive_entry_size(e);

    if (!said || entry_path(said, path, err) < 0)
        return said ? -1 : bad("an entry has no name that can be read", err);
    if (s->names.count >= MEMBERS_MAX)
        return bad("the archive has too many files", err);
    if (linked) { /* "../ID/layer.tar", from a directory of the top */
        strv_push(&s->targets, str_starts(linked, "../") ? linked + 3 : linked);
        strv_push(&s->names, path);
        return 0;
    }
    if (archive_entry_filetype(e) != AE_IFREG)
        return 0;
    if (size < 0 || size > *left)
        return bad("it is larger than an image may be (max_size)", err);
    *left -= size;
    (void)snprintf(file, sizeof(file), "member-%zu", s->names.count);
    strv_push(&s->names, path);
    strv_push(&s->targets, "");
    fd = create(s->w, file);
    if (fd < 0)
        return fail_sys(err, "write to the image store");
    return archive_read_data_into_fd(t->inner, fd) == ARCHIVE_OK
               ? 0
               : tar_stream_fail(t, err);
}

static int take_members(struct source *s, int fd, struct vial_error *err)
{
    struct archive_entry *entry = NULL;
    struct tar_stream t = { 0 };
    int64_t left = s->w->job->max_bytes;
    int rc = lseek(fd, 0, SEEK_SET) < 0 ? fail_sys(err, "read the image") : 0;

    rc = rc < 0 ? rc : tar_stream_open(&t, fd, 2 * left, err);
    while (rc == 0 && (rc = tar_stream_next(&t, &entry, err)) > 0)
        rc = take_member(s, &t, entry, &left, err);
    tar_stream_done(&t);
    return rc < 0 || s->names.failed ? (rc < 0 ? -1 : fail_memory(err)) : 0;
}

static int take_archive(struct source *s, struct vial_error *err)
{
    auto_fd int fd = create(s->w, "input");
    char digest[STORE_DIGEST];
    char diff_id[STORE_DIGEST];
    enum form form = FORM_ROOT;
    int64_t size = 0;
    int64_t max = s->w->job->max_bytes;

    if (fd < 0)
        return fail_sys(err, "write to the image store");
    if (copy_fd(STDIN_FILENO, fd, max, digest, &size, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0 || look(fd, max, &form, diff_id, err) < 0)
        return -1;
    if (form == FORM_ROOT)
        return take_root(s, size, digest, diff_id, err);
    if (take_members(s, fd, err) < 0)
        return -1;
    (void)unlinkat(s->w->tmp_fd, "input", 0);
    return form == FORM_LAYOUT ? take_layout(s, err) : take_saved(s, err);
}

static int take_in(const struct work *w, void *context, struct vial_error *err)
{
    struct source s = { .w = w, .dir_fd = *(int *)context, .tags = json_array() };
    const struct confinement c = { .read_fd = s.dir_fd,
                                   .max_bytes = w->job->max_bytes };
    auto_free char *tags = NULL;
    int rc;

    if (confine_self(w, &c, err) < 0)
        return -1;
    rc = s.dir_fd >= 0 ? take_layout(&s, err) : take_archive(&s, err);
    tags = json_dumps(s.tags, JSON_COMPACT);
    json_decref(s.tags);
    strv_done(&s.names);
    strv_done(&s.targets);
    if (rc == 0 && tags)
        rc = work_put(w, "tags", tags, strlen(tags), err);
    return rc;
}

/* As the user says, or else the archive. */
static int choose_names(const struct work *w, struct strv *names,
                        struct vial_error *err)
{
    auto_json json_t *tags = NULL;
    struct blob text = { 0 };
    json_t *tag = NULL;
    size_t i = 0;
    int rc;

    if (w->job->reference[0]) {
        strv_push(names, w->job->reference);
        return strv_ok(names) ? 0 : fail_memory(err);
    }
    if (work_get(w, "tags", CONFIG_MAX, &text, err) < 0)
        return -1;
    rc = json_parse(text.data, text.len, "tags", &tags, err);
    blob_done(&text);
    json_array_foreach(tags, i, tag)
    {
        strv_push(names, json_string_value(tag));
    }
    return rc;
}

static int import(const struct work *w, struct image_parts *parts, json_t **out,
                  struct vial_error *err)
{
    auto_fd int dir_fd =
        w->job->path ? open(w->job->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    auto_strv struct strv names = { 0 };

    if (w->job->path && dir_fd < 0)
        return fail_sys(err, "open '%s'", w->job->path);
    if (work_run(w, take_in, &dir_fd, err) < 0 || choose_names(w, &names, err) < 0 ||
        registry_parts(w, "", parts, err) < 0 ||
        work_run(w, layers_unpack, parts, err) < 0)
        return -1;
    return image_commit(w, parts, &names, out, err);
}

int verb_import(const struct job *job, json_t **out, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    struct image_name name;
    struct work w;
    int rc;

    if (!parts)
        return fail_memory(err);
    if (job->reference[0] && image_parse(job->reference, &name, err) < 0)
        return -1;
    if (work_open(job, &w, err) < 0)
        return -1;
    rc = import(&w, parts, out, err);
    work_close(&w);
    return rc < 0 ? fail_in(err, "import image '%s'",
                            job->reference[0] ? job->reference : "-")
                  : 0;
}
