/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A vessel's files become an image: a stage packs the layer that was written to, over
 * the image that it lies on; from there on it is an archive like any other, which is
 * unpacked, summed and put into the store as one that was pulled. "configure" gives an
 * image another config and a name, and no layer.
 */
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
#include "images/fetch/image_registry.h"
#include "images/fetch/layer_tar.h"
#include "images/fetch/layers.h"
#include "images/fetch/manifest.h"
#include "images/fetch/verbs.h"

#define LAYER_FD 4
#define ONE_USER 1000 /* who an ordinary user is in his vessels */

/* What a vessel's root has of ours, and every later one gets anew: files of its own
 * names, and points that something lies over (driver/native/root.c). */
static const char *const not_saved[] = { "dev",
                                         "proc",
                                         "tmp",
                                         "etc/hosts",
                                         "etc/hostname",
                                         "etc/resolv.conf",
                                         "etc/sudoers.d/vial",
                                         "var/none",
                                         "var/empty",
                                         NULL };

static void blob_path(size_t index, char out[32])
{
    (void)snprintf(out, 32, "blob-%zu", index);
}

/* The only stage that sees the vessel's layer. CONTEXT: the struct image_parts, of
 * which the last layer is made. */
static int pack(const struct work *w, void *context, struct vial_error *err)
{
    const struct image_parts *parts = context;
    auto_fd int root_fd = openat(LAYER_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_fd int fd = -1;
    const struct confinement c = { .owners = true,
                                   .read_fd = root_fd,
                                   .max_bytes = w->job->max_bytes };
    const struct layer_tar how = { .first_id = (uid_t)w->job->first_id,
                                   .all_id = w->job->first_id || w->job->ranged
                                                 ? 0
                                                 : ONE_USER,
                                   .left = not_saved,
                                   .max_bytes = w->job->max_bytes };
    char path[32];

    blob_path(parts->count, path);
    fd = openat(w->tmp_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (root_fd < 0 || fd < 0)
        return fail_sys(err, "open the vessel's layer");
    if (confine_self(w, &c, err) < 0)
        return -1;
    return layer_tar_write(root_fd, &how, fd, err);
}

static int read_base(const struct work *w, const char *name, const char *digest,
                     json_t **out, struct vial_error *err)
{
    struct blob text = { 0 };
    auto_fd int fd = -1;
    char path[128];
    int rc;

    (void)snprintf(path, sizeof(path), "images/%.64s/%s", w->job->base + 7, name);
    fd = openat(w->store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_sys(err, "open the image's %s", name);
    rc = io_read_fd(fd, name, CONFIG_MAX, &text, err);
    rc = rc < 0 ? rc : manifest_parse(&text, digest, name, out, err);
    blob_done(&text);
    return rc;
}

/* CONFIG is the base's: it gets what the job says. Its history is not that of the new
 * image. */
static void change_config(const struct work *w, json_t *config)
{
    json_t *inner = json_object_get(config, "config");

    (void)json_object_del(config, "history");
    (void)json_object_del(config, "created");
    if (!json_is_object(inner)) {
        inner = json_object();
        (void)json_object_set_new(config, "config", inner);
    }
    if (json_is_object(w->job->config))
        (void)json_object_update(inner, w->job->config);
}

static int add_layer(json_t *config, const char *diff_id, struct vial_error *err)
{
    json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");

    return json_array_append_new(ids, json_string(diff_id)) < 0
               ? fail(err, VIAL_E_IMAGE_BAD, "its config has no layers")
               : 0;
}

/* Writes config and manifest into the work's directory, as a pull finds them. */
static int compose(const struct work *w, json_t *config, struct image_parts *parts,
                   struct vial_error *err)
{
    auto_free char *text = json_dumps(config, JSON_COMPACT);
    auto_free char *manifest = NULL;

    if (!text)
        return fail_memory(err);
    digest_of(text, strlen(text), parts->config);
    parts->config_size = (int64_t)strlen(text);
    if (manifest_make(parts, &manifest, err) < 0 ||
        work_put(w, "config", text, strlen(text), err) < 0)
        return -1;
    return work_put(w, "manifest", manifest, strlen(manifest), err);
}

static int measure(const struct work *w, struct image_parts *parts,
                   struct vial_error *err)
{
    struct layer_part *layer = &parts->layers[parts->count];
    auto_fd int fd = -1;
    char path[32];

    blob_path(parts->count, path);
    fd = openat(w->tmp_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_sys(err, "read a layer");
    if (digest_of_file(fd, layer->digest, &layer->size, err) < 0)
        return -1;
    parts->count++;
    return 0;
}

/* The sizes of the layers below do not count: they are here. */
static struct job unbounded(const struct job *job)
{
    struct job all = *job;

    all.max_bytes = INT64_MAX / 2;
    return all;
}

/* The vessel's layer comes on top of PARTS, and into CONFIG. */
static int take_layer(struct work *w, struct image_parts *parts, json_t *config,
                      struct vial_error *err)
{
    if (parts->count >= LAYERS_MAX) {
        (void)fail(err, VIAL_E_IMAGE_BAD, "it has %d layers already", LAYERS_MAX);
        return fail_remedy(err, "export it, and import its tree as one layer");
    }
    if (work_run(w, pack, parts, err) < 0)
        return -1;
    report_progress("", "Saved", 0, 0); /* from here on the vessel may go on */
    return measure(w, parts, err) < 0
               ? -1
               : add_layer(config, parts->layers[parts->count - 1].digest, err);
}

static int make(struct work *w, bool layer, struct image_parts *parts, json_t **out,
                struct vial_error *err)
{
    const struct job *job = w->job;
    const struct job all = unbounded(job);
    auto_strv struct strv names = { 0 };
    auto_json json_t *manifest = NULL;
    auto_json json_t *config = NULL;
    int rc;

    strv_push(&names, job->reference);
    if (read_base(w, "manifest", job->base, &manifest, err) < 0 ||
        manifest_read(manifest, &all, parts, err) < 0 ||
        read_base(w, "config", parts->config, &config, err) < 0)
        return -1;
    change_config(w, config);
    if ((layer && take_layer(w, parts, config, err) < 0) ||
        compose(w, config, parts, err) < 0)
        return -1;
    w->job = &all;
    rc = registry_parts(w, "", parts, err);
    w->job = job;
    if (rc < 0 || (layer && work_run(w, layers_unpack, parts, err) < 0))
        return -1;
    return image_commit(w, parts, &names, out, err);
}

static int over_base(const struct job *job, bool layer, json_t **out,
                     struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_stored struct stored_image base = STORED_IMAGE_NONE;
    struct work w;
    int rc;

    if (!parts)
        return fail_memory(err);
    if (!job->base || job->first_id < 0 || job->first_id > UINT32_MAX - FILE_OWNERS)
        return fail(err, VIAL_E_USAGE, "'%s' is asked for by vial", job->verb);
    if (job->ranged && geteuid() != 0)
        return fail(err, VIAL_E_FILE, "the image store has no range of ids any more");
    if (store_look(job->store, job->base, &base, err) < 0 ||
        work_open(job, &w, err) < 0)
        return -1;
    rc = make(&w, layer, parts, out, err);
    work_close(&w);
    return rc < 0 ? fail_in(err, "save image '%s'", job->reference) : 0;
}

int verb_snapshot(const struct job *job, json_t **out, struct vial_error *err)
{
    return over_base(job, true, out, err);
}

int verb_configure(const struct job *job, json_t **out, struct vial_error *err)
{
    return over_base(job, false, out, err);
}
