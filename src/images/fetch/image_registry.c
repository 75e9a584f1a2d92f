/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/image_registry.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "images/fetch/confine.h"
#include "images/fetch/layers.h"
#include "images/fetch/manifest.h"

#define AT_ONCE 4
#define TELL_NS INT64_C(100000000)
#define WAIT_MS 200
#define MS_NS   INT64_C(1000000)

static bool is_loopback(const char *host)
{
    return str_eq(host, "localhost") || str_starts(host, "localhost:") ||
           str_starts(host, "127.") || str_starts(host, "[::1]");
}

static bool is_listed(json_t *list, const char *host)
{
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(list, i, entry)
    {
        if (str_eq(json_string_value(entry), host))
            return true;
    }
    return false;
}

static bool has_proxy(void)
{
    static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "http_proxy",
                                         "all_proxy", "ALL_PROXY" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *value = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe) */

        if (value && *value)
            return true;
    }
    return false;
}

static int add_endpoint(struct registry *r, const struct job *job, const char *scheme,
                        const char *host, const char *repository,
                        struct vial_error *err)
{
    struct endpoint *e = &r->endpoints[r->count];

    if (r->count == ENDPOINTS_MAX)
        return fail(err, VIAL_E_VALUE, "there are too many mirrors");
    (void)snprintf(e->base, sizeof(e->base), "%s://%.250s", scheme, host);
    (void)snprintf(e->host, sizeof(e->host), "%.250s", host);
    (void)snprintf(e->repository, sizeof(e->repository), "%s", repository);
    e->plain = str_eq(scheme, "http");
    e->proxied = has_proxy() && !is_loopback(host);
    r->count++;
    return credentials_find(job->home, host, &e->who, err);
}

/* HOST may be asked by plain HTTP if it is here or the settings say so. */
static int add_host(struct registry *r, const struct job *job, const char *host,
                    const char *repository, struct vial_error *err)
{
    bool near = is_loopback(host);

    if ((near || is_listed(job->plain, host)) &&
        add_endpoint(r, job, "http", host, repository, err) < 0)
        return -1;
    if (is_listed(job->plain, host))
        return 0;
    return add_endpoint(r, job, "https", host, repository, err);
}

static int add_mirrors(struct registry *r, const struct job *job, const char *host,
                       const char *repository, struct vial_error *err)
{
    size_t len = strlen(host);
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(job->mirrors, i, entry)
    {
        const char *text = json_string_value(entry);

        if (text && strncmp(text, host, len) == 0 && text[len] == '=' &&
            add_host(r, job, text + len + 1, repository, err) < 0)
            return -1;
    }
    return 0;
}

/* HOST/NAME, where NAME may come without a host. */
static int complete(const struct job *job, const char *name, struct str *out,
                    struct vial_error *err)
{
    const char *registry = job->registry;

    if (image_names_host(name))
        str_puts(out, name);
    else if (!registry) {
        (void)fail(err, VIAL_E_IMAGE, "the image '%s' names no registry", name);
        return fail_remedy(err,
                           "write 'HOST/%.80s', or name a registry in the settings: "
                           "'images: {registry: HOST}'",
                           name);
    } else
        str_printf(out, "%.*s/%s",
                   (int)(strchr(name, '/') ? strcspn(registry, "/") : strlen(registry)),
                   registry, name);
    return str_ok(out) ? 0 : fail_memory(err);
}

int registry_open(const struct job *job, struct registry *out, struct vial_error *err)
{
    auto_str struct str full = { 0 };
    struct image_name name;
    char *slash;
    char *colon;

    *out = (struct registry){ .count = 0 };
    if (image_parse(job->reference, &name, err) < 0 ||
        complete(job, name.name, &full, err) < 0)
        return -1;
    slash = strchr(full.data, '/');
    colon = strchr(slash, ':'); /* a tag before a digest, which says more */
    if (colon)
        *colon = '\0';
    *slash = '\0';
    (void)snprintf(out->reference, sizeof(out->reference), "%s", name.tag);
    if (strlen(full.data) > 250 || !slash[1] || strstr(slash + 1, "//") ||
        strlen(slash + 1) > 255)
        return fail(err, VIAL_E_IMAGE, "'%s' is not the name of an image",
                    job->reference);
    if (add_mirrors(out, job, full.data, slash + 1, err) < 0)
        return -1;
    return add_host(out, job, full.data, slash + 1, err);
}

void registry_close(struct registry *r)
{
    for (size_t i = 0; i < r->count; i++) {
        credentials_done(&r->endpoints[i].who);
        free(r->endpoints[i].authorization);
    }
    r->count = 0;
    free(r->ca);
}

/* E's KIND ("manifests", "blobs") WHICH, of at most MAX bytes, into the file NAME. */
static int get_small(const struct work *w, struct endpoint *e, const char *kind,
                     const char *which, int64_t max, const char *name,
                     struct vial_error *err)
{
    auto_free char *url = NULL;
    struct transfer t = { .fd = -1 };
    int rc;

    if (asprintf(&url, "%s/v2/%s/%s/%s", e->base, e->repository, kind, which) < 0)
        return fail_memory(err);
    rc = transfer_init(&t, e, w->job, url, err);
    t.what = str_eq(name, "config") ? "its config" : "its manifest";
    t.max = max;
    rc = rc < 0 ? rc : transfer_get(&t, MANIFEST_ACCEPT, err);
    rc = rc < 0 ? rc
                : work_put(w, name, t.body.data ? t.body.data : "", t.body.len, err);
    transfer_done(&t);
    return rc;
}

static int read_json(const struct work *w, const char *name, const char *digest,
                     char real[STORE_DIGEST], json_t **out, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc = work_get(w, name, CONFIG_MAX, &text, err);

    if (rc == 0)
        digest_of(text.data ? text.data : "", text.len, real);
    rc = rc < 0 ? rc
                : manifest_parse(&text, digest,
                                 str_eq(name, "config") ? "its config" : "its manifest",
                                 out, err);
    blob_done(&text);
    return rc;
}

/* An index is kept under that name beside the manifest that was chosen from it. */
static int get_manifest(const struct work *w, struct registry *r, struct endpoint *e,
                        struct image_parts *parts, struct vial_error *err)
{
    const char *pinned = image_is_digest(r->reference) ? r->reference : "";
    auto_json json_t *root = NULL;
    char chosen[STORE_DIGEST];
    int64_t size = 0;

    if (get_small(w, e, "manifests", r->reference, (int64_t)MANIFEST_MAX, "manifest",
                  err) < 0 ||
        read_json(w, "manifest", pinned, parts->digest, &root, err) < 0 ||
        manifest_choose(root, w->job, chosen, &size, err) < 0)
        return -1;
    if (!chosen[0])
        return manifest_read(root, w->job, parts, err);
    if (renameat(w->tmp_fd, "manifest", w->tmp_fd, "index") < 0)
        return fail_sys(err, "write the image's index");
    json_decref(root);
    root = NULL;
    if (get_small(w, e, "manifests", chosen, (int64_t)MANIFEST_MAX, "manifest", err) <
            0 ||
        read_json(w, "manifest", chosen, parts->digest, &root, err) < 0)
        return -1;
    return manifest_read(root, w->job, parts, err);
}

static int get_config(const struct work *w, struct endpoint *e,
                      struct image_parts *parts, struct vial_error *err)
{
    auto_json json_t *config = NULL;
    char real[STORE_DIGEST];

    if (get_small(w, e, "blobs", parts->config, parts->config_size, "config", err) <
            0 ||
        read_json(w, "config", parts->config, real, &config, err) < 0)
        return -1;
    return manifest_read_config(config, w->job, parts, err);
}

/* Blobs, some at once. */
struct blobs {
    const struct work *w;
    struct endpoint *from;
    struct image_parts *parts;
    struct transfer *transfers; /* one for each layer */
    int64_t *wake_ns;           /* when a pause ends; 0: none */
    int64_t told_ns;
    size_t next, active, waiting;
    CURLM *multi;
};

static int launch(struct blobs *b, size_t index, struct vial_error *err)
{
    struct transfer *t = &b->transfers[index];

    if (transfer_start(t, NULL, err) < 0)
        return -1;
    b->wake_ns[index] = 0;
    b->active++;
    return curl_multi_add_handle(b->multi, t->easy) == CURLM_OK ? 0 : fail_memory(err);
}

static int begin_blob(struct blobs *b, size_t index, struct vial_error *err)
{
    const struct layer_part *layer = &b->parts->layers[index];
    struct transfer *t = &b->transfers[index];
    auto_free char *url = NULL;
    char name[32];

    if (asprintf(&url, "%s/v2/%s/blobs/%s", b->from->base, b->from->repository,
                 layer->digest) < 0)
        return fail_memory(err);
    if (transfer_init(t, b->from, b->w->job, url, err) < 0)
        return -1;
    t->what = "a layer";
    t->max = layer->size;
    (void)snprintf(name, sizeof(name), "blob-%zu", index);
    t->fd = openat(b->w->tmp_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return t->fd < 0 ? fail_sys(err, "write a layer") : launch(b, index, err);
}

static int begin_more(struct blobs *b, struct vial_error *err)
{
    for (; b->next < b->parts->count && b->active + b->waiting < AT_ONCE; b->next++) {
        const struct layer_part *layer = &b->parts->layers[b->next];

        if (layer->here)
            report_progress(layer->digest, "Already exists", 0, 0);
        else if (begin_blob(b, b->next, err) < 0)
            return -1;
    }
    return 0;
}

static int wake(struct blobs *b, struct vial_error *err)
{
    for (size_t i = 0; i < b->next; i++)
        if (b->wake_ns[i] && clock_now_ns() >= b->wake_ns[i]) {
            b->waiting--;
            if (launch(b, i, err) < 0)
                return -1;
        }
    return 0;
}

static int end_blob(struct blobs *b, size_t index, struct vial_error *err)
{
    const struct layer_part *layer = &b->parts->layers[index];
    struct transfer *t = &b->transfers[index];
    char real[STORE_DIGEST];

    digest_end(&t->sum, real);
    if (!str_eq(real, layer->digest)) {
        (void)fail(err, VIAL_E_IMAGE_BAD, "a layer came with another digest");
        return fail_cause(err, "%s, not %s", real, layer->digest);
    }
    report_progress(layer->digest, "Download complete", layer->size, layer->size);
    transfer_done(t);
    *t = (struct transfer){ .fd = -1 };
    return 0;
}

static int judge_blob(struct blobs *b, struct transfer *t, CURLcode code,
                      struct vial_error *err)
{
    size_t index = (size_t)(t - b->transfers);
    enum step step = transfer_judge(t, code, err);

    b->active--;
    if (step == STEP_DONE)
        return end_blob(b, index, err);
    if (step == STEP_AGAIN)
        return launch(b, index, err);
    if (step == STEP_FAIL)
        return -1;
    report_progress(b->parts->layers[index].digest, "Retrying", t->got, t->max);
    b->wake_ns[index] = clock_now_ns() + t->pause_ms * MS_NS;
    b->waiting++;
    return 0;
}

static int take_messages(struct blobs *b, struct vial_error *err)
{
    CURLMsg *message;
    int left = 0;

    while ((message = curl_multi_info_read(b->multi, &left))) {
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;
        void *context = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &context);
        (void)curl_multi_remove_handle(b->multi, easy);
        if (judge_blob(b, context, code, err) < 0)
            return -1;
    }
    return 0;
}

static void tell(struct blobs *b)
{
    int64_t now = clock_now_ns();

    if (now - b->told_ns < TELL_NS)
        return;
    b->told_ns = now;
    for (size_t i = 0; i < b->next; i++)
        if (b->transfers[i].easy)
            report_progress(b->parts->layers[i].digest, "Downloading",
                            b->transfers[i].got, b->transfers[i].max);
}

static int pump(struct blobs *b, struct vial_error *err)
{
    int running = 0;

    for (;;) {
        if (begin_more(b, err) < 0 || wake(b, err) < 0)
            return -1;
        if (b->active + b->waiting == 0)
            return 0;
        if (curl_multi_perform(b->multi, &running) != CURLM_OK)
            return fail(err, VIAL_E_PULL, "get its layers from '%s'", b->from->host);
        if (take_messages(b, err) < 0)
            return -1;
        tell(b);
        (void)curl_multi_poll(b->multi, NULL, 0,
                              b->waiting || !b->active ? 20 : WAIT_MS, NULL);
    }
}

static int get_blobs(const struct work *w, struct endpoint *e,
                     struct image_parts *parts, struct vial_error *err)
{
    struct blobs b = { .w = w, .from = e, .parts = parts };
    int rc;

    layers_look(w, parts);
    b.transfers = calloc(parts->count, sizeof(*b.transfers));
    b.wake_ns = calloc(parts->count, sizeof(*b.wake_ns));
    b.multi = curl_multi_init();
    for (size_t i = 0; b.transfers && i < parts->count; i++)
        b.transfers[i].fd = -1;
    rc = b.transfers && b.wake_ns && b.multi ? pump(&b, err) : fail_memory(err);
    for (size_t i = 0; b.transfers && i < parts->count; i++) {
        if (b.multi && b.transfers[i].easy)
            (void)curl_multi_remove_handle(b.multi, b.transfers[i].easy);
        transfer_done(&b.transfers[i]);
    }
    if (b.multi)
        (void)curl_multi_cleanup(b.multi);
    free(b.transfers);
    free(b.wake_ns);
    return rc;
}

static int fetch_from(const struct work *w, struct registry *r, struct endpoint *e,
                      struct vial_error *err)
{
    struct image_parts *parts = calloc(1, sizeof(*parts));
    int rc = parts ? 0 : fail_memory(err);

    (void)unlinkat(w->tmp_fd, "index", 0);
    rc = rc < 0 ? rc : get_manifest(w, r, e, parts, err);
    rc = rc < 0 ? rc : get_config(w, e, parts, err);
    rc = rc < 0 ? rc : get_blobs(w, e, parts, err);
    free(parts);
    return rc;
}

/* A copy of the authorities, where the confined can read it. */
static int lay_authorities(const struct work *w, struct registry *r,
                           struct vial_error *err)
{
    struct blob text = { 0 };
    int rc;

    if (!w->job->ca)
        return 0;
    rc = io_read_file(w->job->ca, CONFIG_MAX, &text, err);
    rc = rc < 0 ? rc : work_put(w, "ca", text.data ? text.data : "", text.len, err);
    blob_done(&text);
    if (rc == 0 && asprintf(&r->ca, "%s/%s/ca", w->job->store, w->tmp_name) < 0)
        return fail_memory(err);
    for (size_t i = 0; i < r->count; i++)
        r->endpoints[i].ca = r->ca;
    return rc;
}

/* A mirror that fails is passed over; the registry's own word is the last. */
int registry_fetch(const struct work *w, void *context, struct vial_error *err)
{
    struct registry *r = context;
    const struct confinement c = { .network = true,
                                   .read_fd = -1,
                                   .max_bytes = w->job->max_bytes };

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return fail_memory(err);
    if (lay_authorities(w, r, err) < 0 || confine_self(w, &c, err) < 0)
        return -1;
    for (size_t i = 0; i < r->count; i++) {
        if (fetch_from(w, r, &r->endpoints[i], err) == 0)
            return 0;
        if (i + 1 == r->count ||
            (str_eq(r->endpoints[i].host, r->endpoints[i + 1].host) &&
             r->endpoints[i].answered))
            break;
        report_progress("", "trying the next place", 0, 0);
    }
    return -1;
}

int registry_parts(const struct work *w, const char *pinned, struct image_parts *out,
                   struct vial_error *err)
{
    auto_json json_t *index = NULL;
    auto_json json_t *root = NULL;
    auto_json json_t *config = NULL;
    char chosen[STORE_DIGEST] = "";
    char real[STORE_DIGEST];
    int64_t size = 0;

    if (faccessat(w->tmp_fd, "index", F_OK, 0) == 0) {
        if (read_json(w, "index", pinned, real, &index, err) < 0 ||
            manifest_choose(index, w->job, chosen, &size, err) < 0)
            return -1;
        pinned = chosen;
    }
    if (read_json(w, "manifest", pinned, out->digest, &root, err) < 0 ||
        manifest_read(root, w->job, out, err) < 0 ||
        read_json(w, "config", out->config, real, &config, err) < 0 ||
        manifest_read_config(config, w->job, out, err) < 0)
        return -1;
    layers_look(w, out);
    return 0;
}
