/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/filters.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

#define GOOD_NS INT64_C(1000000000)

void filters_open(struct filters *f)
{
    *f = (struct filters){ .read_ns = 0 };
    (void)pthread_mutex_init(&f->lock, NULL);
}

static void forget(struct filters *f)
{
    for (size_t i = 0; i < PROFILE_FILTERS; i++)
        blob_done(&f->kept[i]);
    f->name[0] = '\0';
}

void filters_close(struct filters *f)
{
    forget(f);
    (void)pthread_mutex_destroy(&f->lock);
}

/* Copies FROM to TO, all or nothing; 0, or -1: no memory. */
static int copy(struct blob to[PROFILE_FILTERS],
                const struct blob from[PROFILE_FILTERS])
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < PROFILE_FILTERS && from[i].len; i++)
        rc = blob_set(&to[i], from[i].data, from[i].len);
    for (size_t i = 0; rc < 0 && i < PROFILE_FILTERS; i++)
        blob_done(&to[i]);
    return rc;
}

/* Without room they are read again the next time. */
static void keep(struct filters *f, const char *name,
                 const struct blob filters[PROFILE_FILTERS])
{
    forget(f);
    if (strlen(name) >= sizeof(f->name) || copy(f->kept, filters) < 0)
        return;
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    f->read_ns = clock_now_ns();
}

static bool has(const struct filters *f, const char *name)
{
    return f->name[0] && str_eq(f->name, name) && clock_now_ns() - f->read_ns < GOOD_NS;
}

int filters_fill(struct filters *f, struct jail *jail, int guest_fd, const char *name,
                 struct vial_error *err)
{
    struct blob filters[PROFILE_FILTERS] = { 0 };
    int rc = 0;

    (void)pthread_mutex_lock(&f->lock);
    if (has(f, name))
        rc = copy(filters, f->kept) < 0 ? fail_memory(err) : 0;
    else if ((rc = seccomp_fetch(guest_fd, name, filters, err)) == 0)
        keep(f, name, filters);
    (void)pthread_mutex_unlock(&f->lock);
    if (rc == 0)
        seccomp_give(jail, filters);
    return rc;
}
