/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/environ.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Fields of /proc/PID/stat, as proc(5) counts them. */
enum {
    START_CODE = 26,
    END_CODE,
    START_STACK,
    START_DATA = 45,
    END_DATA,
    START_BRK,
    ARG_START,
    ARG_END,
    ENV_START,
    ENV_END,
    LAST = ENV_END
};

static int read_stat(uint64_t *fields)
{
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    char *at = NULL;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || strlen(at) < 4)
        return -1;
    at += 3; /* past the state, which is the third field and a letter */
    for (int i = 4; i <= LAST; i++)
        fields[i] = strtoull(at, &at, 10);
    return fields[ENV_END] ? 0 : -1;
}

/* All bounds are set at once, since only that needs no privilege. */
void environ_cut(const char *end)
{
    uint64_t f[LAST + 1] = { 0 };
    struct prctl_mm_map map = { .exe_fd = (uint32_t)-1 };

    if (read_stat(f) < 0)
        return;
    map.start_code = f[START_CODE];
    map.end_code = f[END_CODE];
    map.start_data = f[START_DATA];
    map.end_data = f[END_DATA];
    map.start_brk = f[START_BRK];
    map.brk = (uint64_t)(uintptr_t)sbrk(0);
    map.start_stack = f[START_STACK];
    map.arg_start = f[ARG_START];
    map.arg_end = f[ARG_END];
    map.env_start = f[ENV_START];
    map.env_end = (uint64_t)(uintptr_t)end;
    (void)prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}
