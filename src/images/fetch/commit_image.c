/* SPDX-License-Identifier: Apache-2.0 */

/* An image gets into the store: its layers first, then its record, its names last. Who
 * is killed in between leaves layers that nobody uses, and a work's directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "images/fetch/layers.h"
#include "images/fetch/manifest.h"
#include "images/image_config.h"
#include "images/image_json.h"
#include "images/record.h"

/* Another pull may have brought the same layer; then its is taken, and ours goes with
 * the work's directory. */
static int move_layer(const struct work *w, const struct image_parts *parts,
                      size_t index, struct vial_error *err)
{
    char from[32];
    char to[96];

    if (parts->layers[index].here)
        return 0;
    (void)snprintf(from, sizeof(from), "layer-%zu", index);
    (void)snprintf(to, sizeof(to), "layers/%s", parts->layers[index].chain);
    if (renameat2(w->tmp_fd, from, w->store_fd, to, RENAME_NOREPLACE) == 0 ||
        errno == EEXIST)
        return 0;
    return fail_sys(err, "put a layer into the image store");
}

static int64_t sum_sizes(const struct work *w, const struct image_parts *parts)
{
    int64_t total = 0;

    for (size_t i = 0; i < parts->count; i++) {
        char path[96];
        char text[32] = "";

        (void)snprintf(path, sizeof(path), "layers/%s/size", parts->layers[i].chain);
        if (io_read_at(w->store_fd, path, text, sizeof(text)) > 0)
            total += strtoll(text, NULL, 10);
    }
    return total;
}

static void take_text(char **to, const char *from)
{
    free(*to);
    *to = from ? strdup(from) : NULL;
}

int image_record(const struct image_parts *parts, json_t *config, const char *name,
                 struct stored_image *out, struct vial_error *err)
{
    json_t *inner = json_object_get(config, "config");
    const char *user = json_string_value(json_object_get(inner, "User"));
    struct image_config judged = { 0 };

    if (config_parse(inner, name, &judged, err) < 0)
        return -1;
    (void)snprintf(out->digest, sizeof(out->digest), "%s", parts->digest);
    (void)snprintf(out->id, sizeof(out->id), "%s", parts->config);
    (void)snprintf(out->platform, sizeof(out->platform), "%.30s/%.30s",
                   json_string_value(json_object_get(config, "os")),
                   json_string_value(json_object_get(config, "architecture")));
    out->user_xattr = true;
    out->owners_kept = geteuid() == 0;
    config_variables(&judged, &out->env);
    strv_copy(&out->entrypoint, &judged.entrypoint);
    strv_copy(&out->cmd, &judged.args);
    take_text(&out->cwd, judged.cwd);
    take_text(&out->user, user && *user && strlen(user) < 256 ? user : NULL);
    if (judged.is_template && asprintf(&out->template_pool, "%u", judged.pool) < 0)
        out->template_pool = NULL;
    strv_copy(&out->imports, &judged.imports);
    out->uid = judged.uid;
    out->gid = judged.gid;
    for (size_t i = 0; i < parts->count; i++)
        strv_push(&out->chains, parts->layers[i].chain);
    config_done(&judged);
    return out->env.failed || out->chains.failed ? fail_memory(err) : 0;
}

/* image/{record, manifest, config} in the work's directory. */
static int make_image(const struct work *w, const struct image_parts *parts,
                      struct vial_error *err)
{
    auto_stored struct stored_image image = STORED_IMAGE_NONE;
    auto_json json_t *config = NULL;
    auto_str struct str record = { 0 };
    struct blob text = { 0 };
    int rc = work_get(w, "config", CONFIG_MAX, &text, err);

    rc = rc < 0 ? rc : manifest_parse(&text, parts->config, "its config", &config, err);
    blob_done(&text);
    if (rc < 0 || image_record(parts, config, w->job->reference, &image, err) < 0)
        return -1;
    image.created = (int64_t)time(NULL);
    image.size = sum_sizes(w, parts);
    record_write(&record, &image);
    if (!str_ok(&record))
        return fail_memory(err);
    if (mkdirat(w->tmp_fd, "image", 0700) < 0 ||
        renameat(w->tmp_fd, "config", w->tmp_fd, "image/config") < 0 ||
        renameat(w->tmp_fd, "manifest", w->tmp_fd, "image/manifest") < 0)
        return fail_sys(err, "put an image into the store");
    return work_put(w, "image/record", record.data, record.len, err);
}

static int move_image(const struct work *w, const struct image_parts *parts,
                      struct vial_error *err)
{
    char to[96];

    (void)snprintf(to, sizeof(to), "images/%s", parts->digest + strlen("sha256:"));
    if (renameat2(w->tmp_fd, "image", w->store_fd, to, RENAME_NOREPLACE) == 0 ||
        errno == EEXIST)
        return 0;
    return fail_sys(err, "put an image into the store");
}

static int set_name(const struct work *w, const char *name, const char *digest,
                    struct vial_error *err)
{
    auto_free char *file = store_name_file(name, err);
    auto_free char *path = NULL;
    char line[STORE_DIGEST + 2];

    if (!file)
        return -1;
    (void)snprintf(line, sizeof(line), "%s\n", digest);
    if (asprintf(&path, "names/%s", file) < 0)
        return fail_memory(err);
    if (work_put(w, "name", line, strlen(line), err) < 0)
        return -1;
    return renameat(w->tmp_fd, "name", w->store_fd, path) < 0
               ? fail_sys(err, "name the image '%s'", name)
               : 0;
}

int image_commit(const struct work *w, const struct image_parts *parts,
                 const struct strv *names, json_t **out, struct vial_error *err)
{
    if (syncfs(w->store_fd) < 0) /* what a record promises survives a loss of power */
        return fail_sys(err, "write the image to disk");
    for (size_t i = 0; i < parts->count; i++)
        if (move_layer(w, parts, i, err) < 0)
            return -1;
    if (make_image(w, parts, err) < 0 || syncfs(w->store_fd) < 0 ||
        move_image(w, parts, err) < 0)
        return -1;
    for (size_t i = 0; i < names->count; i++)
        if (set_name(w, names->items[i], parts->digest, err) < 0)
            return -1;
    return store_inspect_json(w->job->store, parts->digest, out, err);
}
