/* SPDX-License-Identifier: Apache-2.0 */

/* Extended attributes of the user's ("user.NAME"), as lines "NAME=VALUE" of printable
 * text. What is no such text, or does not fit, is not told. */

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/xattr.h>

#include "guest/guest.h"

#define SPACE     "user."
#define NAME_MAX_ 255

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* Adds NAME's line behind the LEN bytes of OUT. How many there are then. */
static size_t add(int fd, const char *name, char *out, size_t len)
{
    const char *word = name + strlen(SPACE);
    size_t word_len = strlen(word);
    size_t room = LIST_ATTRIBUTES_MAX - len;
    char *value = out + len + word_len + 1;
    size_t most;
    ssize_t n;

    if (strncmp(name, SPACE, strlen(SPACE)) != 0 || !word_len || strchr(word, '=') ||
        !is_printable(word, word_len) || room <= word_len + 2)
        return len;
    /* With a size of 0 the kernel would tell how long it is, and write nothing. */
    most = room - word_len - 2;
    n = fgetxattr(fd, name, value, most);
    if (n < 0 || (size_t)n > most || !is_printable(value, (size_t)n))
        return len;
    (void)stpcpy(out + len, word);
    out[len + word_len] = '=';
    value[n] = '\n';
    return len + word_len + 2 + (size_t)n;
}

void attributes_read(int fd, char out[LIST_ATTRIBUTES_MAX + 1])
{
    char names[LIST_ATTRIBUTES_MAX];
    ssize_t n = fd < 0 ? -1 : flistxattr(fd, names, sizeof names);
    size_t len = 0;

    for (const char *at = names; n > 0 && at < names + n; at += strlen(at) + 1)
        len = add(fd, at, out, len);
    out[len] = 0;
}

/* One line, of which END is the newline. */
static int write_line(int fd, const char *line, const char *end)
{
    const char *value = memchr(line, '=', (size_t)(end - line));
    size_t len = value ? (size_t)(value - line) : 0;
    char name[NAME_MAX_ + 1];

    if (!value || strlen(SPACE) + len > NAME_MAX_)
        return -EINVAL;
    memcpy(name, SPACE, strlen(SPACE));
    memcpy(name + strlen(SPACE), line, len);
    name[strlen(SPACE) + len] = 0;
    return fsetxattr(fd, name, value + 1, (size_t)(end - value - 1), 0) < 0 ? -errno
                                                                            : 0;
}

int attributes_write(int fd, const char *lines)
{
    const char *end;
    int rc = 0;

    while (rc == 0 && lines && *lines) {
        end = strchr(lines, '\n');
        rc = end ? write_line(fd, lines, end) : -EINVAL;
        lines = end ? end + 1 : NULL;
    }
    return rc;
}
