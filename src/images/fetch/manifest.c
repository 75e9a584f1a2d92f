/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "images/fetch/digest.h"
#include "images/image_name.h"

#define PLATFORMS 12 /* that a message names */

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && strlen(text) == json_string_length(json_object_get(object, key))
               ? text
               : "";
}

int manifest_parse(const struct blob *text, const char *digest, const char *what,
                   json_t **out, struct vial_error *err)
{
    char real[STORE_DIGEST];

    digest_of(text->data ? text->data : "", text->len, real);
    if (digest[0] && !str_eq(real, digest)) {
        (void)fail(err, VIAL_E_IMAGE_BAD, "%s came with another digest", what);
        return fail_cause(err, "%s, not %s", real, digest);
    }
    if (json_parse(text->data ? text->data : "", text->len, what, out, err) < 0)
        return fail_as(err, VIAL_E_IMAGE_BAD);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return fail(err, VIAL_E_IMAGE_BAD, "%s is not an object", what);
    }
    return 0;
}

static int read_descriptor(json_t *object, const char *what, char digest[STORE_DIGEST],
                           int64_t *size, struct vial_error *err)
{
    const char *text = text_at(object, "digest");
    json_t *bytes = json_object_get(object, "size");

    if (!image_is_digest(text))
        return fail(err, VIAL_E_IMAGE_BAD, "%s has no sha256 digest", what);
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return fail(err, VIAL_E_IMAGE_BAD, "%s has no size", what);
    (void)snprintf(digest, STORE_DIGEST, "%s", text);
    *size = json_integer_value(bytes);
    return 0;
}

static void name_platform(struct str *out, json_t *platform)
{
    const char *variant = text_at(platform, "variant");

    str_printf(out, "%s%.20s/%.20s%s%.10s", out->len ? ", " : "",
               text_at(platform, "os"), text_at(platform, "architecture"),
               variant[0] ? "/" : "", variant);
}

static int no_platform(json_t *list, const struct job *job, struct vial_error *err)
{
    auto_str struct str names = { 0 };
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(list, i, entry)
    {
        if (i < PLATFORMS)
            name_platform(&names, json_object_get(entry, "platform"));
    }
    (void)fail(err, VIAL_E_IMAGE_BAD, "it is not made for %s/%s", job->os, job->arch);
    return fail_cause(err, "it is for %.160s", names.data ? names.data : "nothing");
}

/* An entry that names no platform is taken where there is no other. */
static bool fits(json_t *entry, const struct job *job)
{
    json_t *platform = json_object_get(entry, "platform");

    return !platform || (str_eq(text_at(platform, "os"), job->os) &&
                         str_eq(text_at(platform, "architecture"), job->arch));
}

int manifest_choose(json_t *root, const struct job *job, char chosen[STORE_DIGEST],
                    int64_t *size, struct vial_error *err)
{
    json_t *list = json_object_get(root, "manifests");
    json_t *entry = NULL;
    size_t i = 0;

    chosen[0] = '\0';
    if (!json_is_array(list))
        return 0;
    json_array_foreach(list, i, entry)
    {
        if (fits(entry, job))
            return read_descriptor(entry, "a manifest of the index", chosen, size, err);
    }
    return no_platform(list, job, err);
}

static int read_layer(json_t *entry, const struct job *job, int64_t *total,
                      struct image_parts *out, struct vial_error *err)
{
    struct layer_part *layer = &out->layers[out->count];

    if (json_object_get(entry, "urls"))
        return fail(err, VIAL_E_IMAGE_BAD, "a layer is to come from elsewhere (urls)");
    if (read_descriptor(entry, "a layer", layer->digest, &layer->size, err) < 0)
        return -1;
    if (layer->size > job->max_bytes || *total > job->max_bytes - layer->size)
        return fail(err, VIAL_E_IMAGE_BAD, "its layers are larger than %lld bytes",
                    (long long)job->max_bytes);
    *total += layer->size;
    out->count++;
    return 0;
}

int manifest_read(json_t *root, const struct job *job, struct image_parts *out,
                  struct vial_error *err)
{
    json_t *layers = json_object_get(root, "layers");
    json_t *version = json_object_get(root, "schemaVersion");
    json_t *entry = NULL;
    int64_t total = 0;
    size_t i = 0;

    if (json_integer_value(version) != 2 || !json_is_array(layers))
        return fail(err, VIAL_E_IMAGE_BAD, "its manifest is of a form not known here");
    if (json_array_size(layers) == 0 || json_array_size(layers) > LAYERS_MAX)
        return fail(err, VIAL_E_IMAGE_BAD, "it has %zu layers; 1 to %d are taken",
                    json_array_size(layers), LAYERS_MAX);
    if (read_descriptor(json_object_get(root, "config"), "its config", out->config,
                        &out->config_size, err) < 0)
        return -1;
    if (out->config_size > (int64_t)CONFIG_MAX)
        return fail(err, VIAL_E_IMAGE_BAD, "its config is larger than %zu bytes",
                    CONFIG_MAX);
    out->count = 0;
    json_array_foreach(layers, i, entry)
    {
        if (read_layer(entry, job, &total, out, err) < 0)
            return -1;
    }
    return 0;
}

/* The chain of a layer names it together with all that it stands on. */
static void chain_layers(struct image_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        struct layer_part *layer = &parts->layers[i];
        char text[2 * STORE_DIGEST + 2];
        char digest[STORE_DIGEST];

        if (i == 0)
            (void)snprintf(digest, sizeof(digest), "%s", layer->diff_id);
        else {
            (void)snprintf(text, sizeof(text), "sha256:%s %s",
                           parts->layers[i - 1].chain, layer->diff_id);
            digest_of(text, strlen(text), digest);
        }
        (void)snprintf(layer->chain, sizeof(layer->chain), "%.64s", digest + 7);
    }
}

int manifest_read_config(json_t *config, const struct job *job,
                         struct image_parts *parts, struct vial_error *err)
{
    json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    const char *os = text_at(config, "os");
    const char *arch = text_at(config, "architecture");

    if (!str_eq(os, job->os) || !str_eq(arch, job->arch)) {
        (void)fail(err, VIAL_E_IMAGE_BAD, "it is not made for %s/%s", job->os,
                   job->arch);
        return fail_cause(err, "it is for %.20s/%.20s", os, arch);
    }
    if (json_array_size(ids) != parts->count)
        return fail(err, VIAL_E_IMAGE_BAD,
                    "its config and its manifest have not the same layers");
    for (size_t i = 0; i < parts->count; i++) {
        const char *id = json_string_value(json_array_get(ids, i));

        if (!id || !image_is_digest(id))
            return fail(err, VIAL_E_IMAGE_BAD, "its config has a diff_id of no sha256");
        (void)snprintf(parts->layers[i].diff_id, STORE_DIGEST, "%s", id);
    }
    chain_layers(parts);
    return 0;
}

int manifest_make(const struct image_parts *parts, char **out, struct vial_error *err)
{
    auto_json json_t *layers = json_array();
    auto_json json_t *root = NULL;

    for (size_t i = 0; i < parts->count; i++)
        (void)json_array_append_new(layers,
                                    json_pack("{s:s, s:s, s:I}", "mediaType",
                                              "application/vnd.oci.image.layer.v1.tar",
                                              "digest", parts->layers[i].digest, "size",
                                              (json_int_t)parts->layers[i].size));
    root =
        json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:O}", "schemaVersion", 2, "mediaType",
                  "application/vnd.oci.image.manifest.v1+json", "config", "mediaType",
                  "application/vnd.oci.image.config.v1+json", "digest", parts->config,
                  "size", (json_int_t)parts->config_size, "layers", layers);
    *out = root ? json_dumps(root, JSON_COMPACT) : NULL;
    return *out ? 0 : fail_memory(err);
}
