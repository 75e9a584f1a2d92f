/* SPDX-License-Identifier: Apache-2.0 */
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
#include "images/fetch/image_registry.h"
#include "images/fetch/layers.h"
#include "images/fetch/sums.h"
#include "images/fetch/verbs.h"
#include "images/record.h"

#define FOUND_MAX  1000
#define OWNERS_MAX ((size_t)1 << 30)

struct verify {
    const struct stored_image *image;
    struct image_parts *parts;
};

static int open_at(const struct work *w, const char *chain, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "layers/%s/%s", chain, name);
    return openat(w->store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* The file whose the files were is as it was. */
static bool has_owners(const struct work *w, const char *chain)
{
    auto_fd int fd = open_at(w, chain, "owners");
    auto_fd int sum_fd = open_at(w, chain, "owners.sum");
    struct blob text = { 0 };
    char said[STORE_DIGEST] = "";
    char real[STORE_DIGEST] = "";

    if (fd < 0 || sum_fd < 0 || io_read_all(sum_fd, said, sizeof(said) - 1) < 0 ||
        io_read_fd(fd, "owners", OWNERS_MAX, &text, NULL) < 0)
        return false;
    digest_of(text.data ? text.data : "", text.len, real);
    blob_done(&text);
    return str_eq(said, real);
}

static int verify_layer(const struct work *w, const char *chain, struct strv *found,
                        struct vial_error *err)
{
    auto_fd int root_fd = open_at(w, chain, "fs");
    auto_fd int old_fd = open_at(w, chain, "sums");
    auto_fd int new_fd =
        openat(w->tmp_fd, "sums", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    auto_strv struct strv here = { 0 };
    int64_t bytes = 0;

    if (root_fd < 0 || old_fd < 0 || new_fd < 0)
        return fail_sys(err, "open the layer '%.12s'", chain);
    if (sums_write(root_fd, new_fd, &bytes, err) < 0 ||
        lseek(new_fd, 0, SEEK_SET) < 0 ||
        sums_compare(old_fd, new_fd, FOUND_MAX, &here, err) < 0)
        return -1;
    if (!has_owners(w, chain))
        strv_push(&here, "changed owners");
    for (size_t i = 0; i < here.count && found->count < FOUND_MAX; i++)
        strv_printf(found, "layer %.12s: %s", chain, here.items[i]);
    return 0;
}

/* The record says what the config says. */
static int verify_record(const struct work *w, const struct verify *v,
                         struct strv *found, struct vial_error *err)
{
    auto_stored struct stored_image again = STORED_IMAGE_NONE;
    auto_json json_t *config = NULL;
    auto_str struct str a = { 0 };
    auto_str struct str b = { 0 };
    struct blob text = { 0 };
    int rc = work_get(w, "config", CONFIG_MAX, &text, err);

    rc = rc < 0
             ? rc
             : json_parse(text.data ? text.data : "", text.len, "config", &config, err);
    blob_done(&text);
    if (rc < 0 || image_record(v->parts, config, w->job->reference, &again, err) < 0)
        return -1;
    again.size = v->image->size;
    again.created = v->image->created;
    again.owners_kept = v->image->owners_kept;
    record_write(&a, v->image);
    record_write(&b, &again);
    if (!str_ok(&a) || !str_ok(&b))
        return fail_memory(err);
    if (!str_eq(a.data, b.data))
        strv_push(found, "changed record");
    return 0;
}

static int verify_all(const struct work *w, void *context, struct vial_error *err)
{
    const struct verify *v = context;
    const struct confinement c = { .owners = true,
                                   .read_fd = w->store_fd,
                                   .max_bytes = w->job->max_bytes };
    auto_strv struct strv found = { 0 };
    auto_json json_t *list = json_array();
    auto_free char *text = NULL;
    struct vial_error why = { 0 };

    if (confine_self(w, &c, err) < 0)
        return -1;
    if (registry_parts(w, v->image->digest, v->parts, &why) < 0)
        strv_printf(&found, "changed manifest or config: %s", why.message);
    else if (verify_record(w, v, &found, err) < 0)
        return -1;
    for (size_t i = 0; i < v->image->chains.count; i++)
        if (verify_layer(w, v->image->chains.items[i], &found, err) < 0)
            return -1;
    for (size_t i = 0; i < found.count; i++)
        (void)json_array_append_new(list, json_string(found.items[i]));
    text = json_dumps(list, JSON_COMPACT);
    return text ? work_put(w, "found", text, strlen(text), err) : fail_memory(err);
}

/* The image's own manifest and config, for registry_parts to judge. */
static int copy_in(const struct work *w, const char *digest, const char *name,
                   struct vial_error *err)
{
    char path[128];
    struct blob text = { 0 };
    auto_fd int fd = -1;
    int rc;

    (void)snprintf(path, sizeof(path), "images/%s/%s", digest + 7, name);
    fd = openat(w->store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_sys(err, "open the image's %s", name);
    rc = io_read_fd(fd, name, CONFIG_MAX, &text, err);
    rc = rc < 0 ? rc : work_put(w, name, text.data ? text.data : "", text.len, err);
    blob_done(&text);
    return rc;
}

static int verify(const struct work *w, struct verify *v, json_t **out,
                  struct vial_error *err)
{
    auto_json json_t *found = NULL;
    struct blob text = { 0 };
    int rc;

    if (copy_in(w, v->image->digest, "manifest", err) < 0 ||
        copy_in(w, v->image->digest, "config", err) < 0 ||
        work_run(w, verify_all, v, err) < 0 ||
        work_get(w, "found", (size_t)64 << 20, &text, err) < 0)
        return -1;
    rc = json_parse(text.data, text.len, "what was found", &found, err);
    blob_done(&text);
    if (rc == 0)
        *out = json_pack("{s:s, s:O}", "digest", v->image->digest, "found", found);
    return rc;
}

int verb_verify(const struct job *job, json_t **out, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_stored struct stored_image image = STORED_IMAGE_NONE;
    struct verify v = { .image = &image, .parts = parts };
    struct work w;
    int rc;

    if (!parts)
        return fail_memory(err);
    if (store_look(job->store, job->reference, &image, err) < 0 ||
        work_open(job, &w, err) < 0)
        return -1;
    rc = verify(&w, &v, out, err);
    work_close(&w);
    return rc < 0 ? fail_in(err, "verify image '%s'", job->reference) : 0;
}
