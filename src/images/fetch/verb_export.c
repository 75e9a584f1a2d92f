/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An image leaves as a tar that is an OCI layout and, by one more file, what `docker
 * load` has always read. The store keeps trees, not the archives that they came in:
 * layers are packed anew, and the image that is exported has digests of its own.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "images/fetch/confine.h"
#include "images/fetch/digest.h"
#include "images/fetch/layer_tar.h"
#include "images/fetch/manifest.h"
#include "images/fetch/verbs.h"
#include "images/image_name.h"

#define OWNERS_MAX ((size_t)1 << 30)
#define PIECE      (128u << 10)

struct exporting {
    const struct work *w;
    const struct stored_image *image;
    struct image_parts *parts;
    struct archive *out;
    json_t *config;
    char *config_text, *manifest;
};

static int broken(struct archive *a, struct vial_error *err)
{
    (void)fail_sys(err, "write the archive");
    return fail_cause(err, "%.160s",
                      archive_error_string(a) ? archive_error_string(a) : "");
}

static int open_in(const struct exporting *x, size_t index, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "layers/%s/%s", x->image->chains.items[index],
                   name);
    return openat(x->w->store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* packed-INDEX in the work's directory. */
static int pack_layer(struct exporting *x, size_t index, struct vial_error *err)
{
    struct layer_part *layer = &x->parts->layers[index];
    auto_fd int root_fd = open_in(x, index, "fs");
    auto_fd int owners_fd = open_in(x, index, "owners");
    auto_fd int fd = -1;
    struct layer_tar how = { 0 };
    struct blob owners = { 0 };
    char path[32];
    int rc;

    (void)snprintf(path, sizeof(path), "packed-%zu", index);
    fd = openat(x->w->tmp_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (root_fd < 0 || owners_fd < 0 || fd < 0)
        return fail_sys(err, "open the layer '%.12s'", x->image->chains.items[index]);
    rc = io_read_fd(owners_fd, "owners", OWNERS_MAX, &owners, err);
    how.owners = owners.data;
    rc = rc < 0 ? rc : layer_tar_write(root_fd, &how, fd, err);
    rc = rc < 0 ? rc : digest_of_file(fd, layer->digest, &layer->size, err);
    blob_done(&owners);
    return rc;
}

/* The config with the digests of the new archives. */
static int make_config(struct exporting *x, struct vial_error *err)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < x->parts->count; i++)
        (void)json_array_append_new(ids, json_string(x->parts->layers[i].digest));
    if (json_object_set_new(json_object_get(x->config, "rootfs"), "diff_ids", ids) < 0)
        return fail(err, VIAL_E_IMAGE_BAD, "its config has no layers");
    x->config_text = json_dumps(x->config, JSON_COMPACT);
    if (!x->config_text)
        return fail_memory(err);
    digest_of(x->config_text, strlen(x->config_text), x->parts->config);
    x->parts->config_size = (int64_t)strlen(x->config_text);
    return manifest_make(x->parts, &x->manifest, err);
}

static int put_header(struct exporting *x, const char *name, int64_t size,
                      struct vial_error *err)
{
    struct archive_entry *e = archive_entry_new();
    int rc;

    if (!e)
        return fail_memory(err);
    archive_entry_copy_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, size);
    rc = archive_write_header(x->out, e) == ARCHIVE_OK ? 0 : broken(x->out, err);
    archive_entry_free(e);
    return rc;
}

static int put_text(struct exporting *x, const char *name, const char *text,
                    struct vial_error *err)
{
    if (put_header(x, name, (int64_t)strlen(text), err) < 0)
        return -1;
    return archive_write_data(x->out, text, strlen(text)) < 0 ? broken(x->out, err) : 0;
}

static void blob_name(const char *digest, char out[96])
{
    (void)snprintf(out, 96, "blobs/sha256/%s", digest + strlen("sha256:"));
}

static int put_blob(struct exporting *x, const char *digest, const char *text,
                    struct vial_error *err)
{
    char name[96];

    blob_name(digest, name);
    return put_text(x, name, text, err);
}

/* Two layers may be the same bytes, which then come once. */
static bool is_told(const struct exporting *x, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (str_eq(x->parts->layers[i].digest, x->parts->layers[index].digest))
            return true;
    return false;
}

static int put_layer(struct exporting *x, size_t index, struct vial_error *err)
{
    const struct layer_part *layer = &x->parts->layers[index];
    auto_free char *piece = malloc(PIECE);
    auto_fd int fd = -1;
    char name[96];
    char path[32];
    ssize_t n = -1;

    (void)snprintf(path, sizeof(path), "packed-%zu", index);
    fd = openat(x->w->tmp_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !piece)
        return fail_sys(err, "read a layer");
    if (is_told(x, index))
        return 0;
    blob_name(layer->digest, name);
    if (put_header(x, name, layer->size, err) < 0)
        return -1;
    while ((n = read(fd, piece, PIECE)) > 0)
        if (archive_write_data(x->out, piece, (size_t)n) < 0)
            return broken(x->out, err);
    return n < 0 ? fail_sys(err, "read a layer") : 0;
}

/* The name with its tag, or NULL for a digest alone. */
static json_t *full_name(const char *reference)
{
    struct image_name name;

    if (image_is_digest(reference) || image_parse(reference, &name, NULL) < 0 ||
        name.pinned)
        return NULL;
    return json_sprintf("%s:%s", name.name, name.tag);
}

static int put_indexes(struct exporting *x, struct vial_error *err)
{
    auto_json json_t *name = full_name(x->w->job->reference);
    auto_json json_t *notes = json_object();
    auto_json json_t *layers = json_array();
    auto_json json_t *index = NULL;
    auto_json json_t *saved = NULL;
    auto_free char *index_text = NULL;
    auto_free char *saved_text = NULL;
    char digest[STORE_DIGEST];
    char path[96];

    digest_of(x->manifest, strlen(x->manifest), digest);
    if (name) {
        (void)json_object_set(notes, "io.containerd.image.name", name);
        (void)json_object_set(notes, "org.opencontainers.image.ref.name", name);
    }
    for (size_t i = 0; i < x->parts->count; i++) {
        blob_name(x->parts->layers[i].digest, path);
        (void)json_array_append_new(layers, json_string(path));
    }
    blob_name(x->parts->config, path);
    index = json_pack("{s:i, s:s, s:[{s:s, s:s, s:I, s:O}]}", "schemaVersion", 2,
                      "mediaType", "application/vnd.oci.image.index.v1+json",
                      "manifests", "mediaType",
                      "application/vnd.oci.image.manifest.v1+json", "digest", digest,
                      "size", (json_int_t)strlen(x->manifest), "annotations", notes);
    saved = json_pack("[{s:s, s:o, s:O}]", "Config", path, "RepoTags",
                      name ? json_pack("[O]", name) : json_null(), "Layers", layers);
    index_text = index ? json_dumps(index, JSON_COMPACT) : NULL;
    saved_text = saved ? json_dumps(saved, JSON_COMPACT) : NULL;
    if (!index_text || !saved_text)
        return fail_memory(err);
    if (put_text(x, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err) < 0 ||
        put_text(x, "index.json", index_text, err) < 0 ||
        put_text(x, "manifest.json", saved_text, err) < 0)
        return -1;
    return put_blob(x, digest, x->manifest, err);
}

static int pack_all(struct exporting *x, struct vial_error *err)
{
    for (size_t i = 0; i < x->parts->count; i++)
        if (pack_layer(x, i, err) < 0)
            return -1;
    if (make_config(x, err) < 0)
        return -1;
    x->out = archive_write_new();
    if (!x->out)
        return fail_memory(err);
    if (archive_write_set_format_pax_restricted(x->out) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(x->out, 1) != ARCHIVE_OK ||
        archive_write_open_fd(x->out, STDOUT_FILENO) != ARCHIVE_OK)
        return broken(x->out, err);
    if (put_indexes(x, err) < 0 ||
        put_blob(x, x->parts->config, x->config_text, err) < 0)
        return -1;
    for (size_t i = 0; i < x->parts->count; i++)
        if (put_layer(x, i, err) < 0)
            return -1;
    return archive_write_close(x->out) == ARCHIVE_OK ? 0 : broken(x->out, err);
}

static int export_all(const struct work *w, void *context, struct vial_error *err)
{
    struct exporting *x = context;
    const struct confinement c = { .owners = true,
                                   .read_fd = w->store_fd,
                                   .max_bytes = w->job->max_bytes };
    char path[128];
    auto_fd int fd = -1;
    struct blob text = { 0 };
    int rc;

    (void)snprintf(path, sizeof(path), "images/%s/config", x->image->digest + 7);
    fd = openat(w->store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_sys(err, "open the image's config");
    if (confine_self(w, &c, err) < 0)
        return -1;
    rc = io_read_fd(fd, "config", CONFIG_MAX, &text, err);
    rc = rc < 0 ? rc
                : manifest_parse(&text, x->image->id, "its config", &x->config, err);
    blob_done(&text);
    x->parts->count = x->image->chains.count;
    rc = rc < 0 ? rc : pack_all(x, err);
    if (x->out)
        (void)archive_write_free(x->out);
    free(x->config_text);
    free(x->manifest);
    json_decref(x->config);
    return rc;
}

int verb_export(const struct job *job, json_t **out, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_stored struct stored_image image = STORED_IMAGE_NONE;
    struct exporting x = { .image = &image, .parts = parts };
    struct work w;
    int rc;

    if (!parts)
        return fail_memory(err);
    if (store_look(job->store, job->reference, &image, err) < 0 ||
        image.chains.count > LAYERS_MAX || work_open(job, &w, err) < 0)
        return -1;
    x.w = &w;
    rc = work_run(&w, export_all, &x, err);
    work_close(&w);
    if (rc == 0)
        *out = json_pack("{s:s}", "digest", image.digest);
    return rc < 0 ? fail_in(err, "export image '%s'", job->reference) : 0;
}
