/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "images/fetch/image_registry.h"
#include "images/fetch/layers.h"
#include "images/fetch/verbs.h"

/* Two pulls of one name take turns: the second finds what the first brought. */
static int lock_name(const struct work *w, struct vial_error *err)
{
    char digest[STORE_DIGEST];
    char path[96];
    auto_fd int fd = -1;

    digest_of(w->job->reference, strlen(w->job->reference), digest);
    (void)snprintf(path, sizeof(path), "locks/%.16s", digest + 7);
    fd = openat(w->store_fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return fail_sys(err, "lock the image's name");
    return fd_take(&fd);
}

static int pull(const struct work *w, struct registry *r, struct image_parts *parts,
                json_t **out, struct vial_error *err)
{
    const char *pinned = image_is_digest(r->reference) ? r->reference : "";
    auto_strv struct strv names = { 0 };
    auto_fd int name_fd = lock_name(w, err);

    strv_push(&names, w->job->reference);
    if (name_fd < 0 || work_run(w, registry_fetch, r, err) < 0 ||
        registry_parts(w, pinned, parts, err) < 0 ||
        work_run(w, layers_unpack, parts, err) < 0)
        return -1;
    return image_commit(w, parts, &names, out, err);
}

int verb_pull(const struct job *job, json_t **out, struct vial_error *err)
{
    auto_free struct image_parts *parts = calloc(1, sizeof(*parts));
    auto_free struct registry *r = calloc(1, sizeof(*r));
    struct work w;
    int rc;

    if (!parts || !r)
        return fail_memory(err);
    rc = registry_open(job, r, err);
    if (rc == 0 && (rc = work_open(job, &w, err)) == 0) {
        rc = pull(&w, r, parts, out, err);
        work_close(&w);
    }
    registry_close(r);
    return rc < 0 ? fail_in(err, "pull image '%s'", job->reference) : 0;
}

/* Opening a store for work sweeps it, which is all that is asked for. */
int verb_sweep(const struct job *job, json_t **out, struct vial_error *err)
{
    struct work w;

    *out = NULL;
    if (work_open(job, &w, err) < 0)
        return -1;
    work_close(&w);
    return 0;
}
