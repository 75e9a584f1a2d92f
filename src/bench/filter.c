/* SPDX-License-Identifier: Apache-2.0 */

/* The filter of profile 'default', as bubblewrap takes one: by a descriptor from which
 * the bare instructions can be read. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "bench/bench.h"
#include "settings/settings.h"

#define FILTER_MAX (1u << 20)

static int read_filter(struct blob *out, struct vial_error *err)
{
    const struct settings_sources from = { .environ_ = environ };
    struct settings *settings = NULL;
    auto_free char *path = NULL;
    int rc = settings_load(&from, &settings, err);

    if (rc < 0)
        return -1;
    path = path_join(settings->share_dir, "seccomp/default.bpf");
    rc = path ? io_read_file(path, FILTER_MAX, out, err) : fail_memory(err);
    settings_free(settings);
    return rc;
}

/* Before it stand the lengths of two filters, of which the second is empty once both
 * were joined. */
int bench_open_filter(struct vial_error *err)
{
    struct blob text = { 0 };
    uint32_t len[2] = { 0 };
    int fd = -1;

    if (read_filter(&text, err) < 0)
        return -1;
    if (text.len > sizeof len)
        memcpy(len, text.data, sizeof len);
    if (!len[0] || len[1] || text.len != sizeof len + len[0])
        (void)fail(err, VIAL_E_UNSUPPORTED, "the filter is not one");
    else
        fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd >= 0 && io_write_all(fd, text.data + sizeof len, len[0]) < 0) {
        (void)close(fd);
        fd = -1;
    }
    blob_done(&text);
    return fd;
}
