/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp_compile DIR NAME OUT [ARCH]: compiles DIR/NAME.yaml, for this machine or for
 * ARCH. OUT is two lengths in bytes, 32 bits each, and the filters; the second may be
 * empty. */
#include <fcntl.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "driver/native/profile.h"

static int write_out(const char *path, const struct blob filters[PROFILE_FILTERS],
                     struct vial_error *err)
{
    auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    uint32_t len[PROFILE_FILTERS] = { (uint32_t)filters[0].len,
                                      (uint32_t)filters[1].len };

    if (fd < 0)
        return fail_sys(err, "create '%s'", path);
    if (io_write_all(fd, len, sizeof(len)) < 0 ||
        io_write_all(fd, filters[0].data, filters[0].len) < 0 ||
        io_write_all(fd, filters[1].data, filters[1].len) < 0)
        return fail_sys(err, "write '%s'", path);
    return 0;
}

static int compile(char **argv, struct vial_error *err)
{
    auto_json json_t *profile = NULL;
    struct blob out[PROFILE_FILTERS] = { 0 };
    int rc = -1;

    if (profile_read(argv[1], argv[2], &profile, err) < 0 ||
        profile_compile(profile, argv[4], out, err) < 0)
        return -1;
    if (profile_join(profile, out, err) == 0)
        rc = write_out(argv[3], out, err);
    blob_done(&out[0]);
    blob_done(&out[1]);
    return rc;
}

int main(int argc, char **argv)
{
    struct vial_error err = { 0 };

    /* qemu, which runs this in a cross build, answers no questions about seccomp. What
     * vial needs otherwise is younger than this level, which has kill_process. */
    (void)seccomp_api_set(3);
    if ((argc == 4 || argc == 5) && compile(argv, &err) == 0)
        return 0;
    (void)fprintf(stderr, "seccomp_compile: %s %s\n",
                  argc < 4 ? "usage: DIR NAME OUT [ARCH]" : err.message, err.cause);
    return 1;
}
