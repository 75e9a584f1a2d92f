/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/log_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/sha256.h"

#define HEAD_FORMAT                                                                    \
    "vial-audit 1 seq=%020" PRIu64 " size=%020" PRIu64 " first=%020" PRIu64            \
    " file=%06u first_file=%06u hash=%64s\n"
#define HEAD_SCAN                                                                      \
    "vial-audit 1 seq=%20" SCNu64 " size=%20" SCNu64 " first=%20" SCNu64               \
    " file=%6u first_file=%6u hash=%64[0-9a-f]\n"
#define HEAD_SIZE 256

static const char no_hash[65] =
    "0000000000000000000000000000000000000000000000000000000000000000";

int head_read(int fd, const char *path, struct head *out, struct vial_error *err)
{
    char text[HEAD_SIZE] = "";
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

    *out = (struct head){ .first = 1, .first_file = 1 };
    memcpy(out->newest.hash, no_hash, sizeof(no_hash));
    if (got < 0)
        return fail_sys(err, "read '%s.head'", path);
    if (got == 0)
        return 0;
    /* NOLINTNEXTLINE(cert-err34-c): every field has a width it fits into */
    if (sscanf(text, HEAD_SCAN, &out->newest.seq, &out->size, &out->first, &out->file,
               &out->first_file, out->newest.hash) != 6 ||
        strlen(out->newest.hash) != 64) {
        (void)fail(err, VIAL_E_AUDIT, "'%s.head' is not the head of a log", path);
        return fail_remedy(err, "see what changed it; 'vial audit verify' reads the "
                                "log itself. Move both away to begin a new one");
    }
    return 0;
}

int head_write(int fd, const struct head *head)
{
    char text[HEAD_SIZE];
    int len = snprintf(text, sizeof(text), HEAD_FORMAT, head->newest.seq, head->size,
                       head->first, head->file, head->first_file, head->newest.hash);
    ssize_t put = pwrite(fd, text, (size_t)len, 0);

    if (put < 0)
        return -errno;
    return put == len ? 0 : -ENOSPC;
}

static char *with_ending(const char *path, const char *ending)
{
    struct str name = { 0 };

    str_printf(&name, "%s.%s", path, ending);
    return str_take(&name);
}

char *older_name(const char *path, unsigned number)
{
    char ending[16];

    (void)snprintf(ending, sizeof(ending), "%06u", number);
    return with_ending(path, ending);
}

char *head_name(const char *path)
{
    return with_ending(path, "head");
}

void line_hash(const char *line, size_t len, char out[65])
{
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, line, len);
    sha256_text(&h, out);
}

/* Gives the whole lines of the LEN bytes at BUF, which begin at OFFSET. How many
 * bytes were used, or -1 when SEE has had enough. */
static ssize_t give_lines(const char *buf, size_t len, uint64_t offset, line_see *see,
                          void *context)
{
    size_t used = 0;
    const char *end;

    while ((end = memchr(buf + used, '\n', len - used))) {
        size_t line = (size_t)(end - buf) - used;

        if (see(context, buf + used, line, offset + used) != 0)
            return -1;
        used += line + 1;
    }
    return (ssize_t)used;
}

int lines_read(int fd, const char *path, uint64_t *at, line_see *see, void *context,
               struct vial_error *err)
{
    size_t size = AUDIT_LINE_MAX + 1;
    auto_free char *buf = malloc(size);
    size_t have = 0;

    if (!buf)
        return fail_memory(err);
    for (;;) {
        ssize_t got = pread(fd, buf + have, size - have, (off_t)(*at + have));
        ssize_t used;

        if (got < 0)
            return fail_sys(err, "read '%s'", path);
        have += (size_t)got;
        used = give_lines(buf, have, *at, see, context);
        if (used > 0) {
            have -= (size_t)used;
            memmove(buf, buf + used, have);
            *at += (uint64_t)used;
        }
        if (used < 0 || got == 0 || have == size)
            return 0;
    }
}
