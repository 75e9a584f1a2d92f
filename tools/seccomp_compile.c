/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp_compile DIR NAME OUT1 OUT2: compiles DIR/NAME.yaml into two filters. */
#include <fcntl.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "driver/native/profile.h"

static int write_file(const char *path, const struct blob *data, struct vial_error *err)
{
    auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0)
        return fail_sys(err, "create '%s'", path);
    return io_write_all(fd, data->data, data->len) < 0
               ? fail_sys(err, "write '%s'", path)
               : 0;
}

static int compile(char **argv, struct vial_error *err)
{
    auto_json json_t *profile = NULL;
    struct blob out[PROFILE_FILTERS] = { 0 };
    int rc = -1;

    if (profile_read(argv[1], argv[2], &profile, err) < 0 ||
        profile_compile(profile, out, err) < 0)
        return -1;
    if (write_file(argv[3], &out[0], err) == 0 &&
        write_file(argv[4], &out[1], err) == 0)
        rc = 0;
    blob_done(&out[0]);
    blob_done(&out[1]);
    return rc;
}

int main(int argc, char **argv)
{
    struct vial_error err = { 0 };

    if (argc == 5 && compile(argv, &err) == 0)
        return 0;
    (void)fprintf(stderr, "seccomp_compile: %s %s\n",
                  argc == 5 ? err.message : "usage: DIR NAME OUT1 OUT2", err.cause);
    return 1;
}
