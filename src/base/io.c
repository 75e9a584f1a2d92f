/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"

/* True if a call that set errno is to be tried again, having waited for FD
 * where it does not block. */
static bool again(int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    if (errno == EINTR)
        return true;
    if (errno != EAGAIN)
        return false;
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

int io_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && !again(fd, POLLOUT))
            return -errno;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

ssize_t io_read_all(int fd, void *data, size_t len)
{
    char *start = data;
    size_t got = 0;

    while (got < len) {
        ssize_t n = read(fd, start + got, len - got);

        if (n == 0)
            break;
        if (n < 0 && !again(fd, POLLIN))
            return -errno;
        if (n > 0)
            got += (size_t)n;
    }
    return (ssize_t)got;
}

int io_read_file(const char *path, size_t max, struct blob *out, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0) {
        (void)fail_sys(err, "read '%s'", path);
        return fail_as(err, VIAL_E_FILE);
    }
    return io_read_fd(fd, path, max, out, err);
}

int io_read_fd(int fd, const char *name, size_t max, struct blob *out,
               struct vial_error *err)
{
    auto_str struct str s = { 0 };
    char buf[8192]; /* most files are smaller; a page untouched costs nothing */

    for (;;) {
        ssize_t n = io_read_all(fd, buf, sizeof buf);

        if (n < 0) {
            (void)fail_sys_rc(err, (int)n, "read '%s'", name);
            return fail_as(err, VIAL_E_FILE);
        }
        if ((size_t)n > max - s.len)
            return fail(err, VIAL_E_FILE, "read '%s': more than %zu bytes", name, max);
        str_add(&s, buf, (size_t)n);
        if ((size_t)n < sizeof buf || !str_ok(&s))
            break;
    }
    if (!str_ok(&s))
        return fail_memory(err);
    blob_done(out);
    out->len = s.len;
    out->data = str_take(&s);
    return 0;
}

ssize_t io_read_at(int dir_fd, const char *name, char *buf, size_t size)
{
    auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n;

    if (fd < 0)
        return -errno;
    if (size == 0)
        return -EOVERFLOW;
    n = io_read_all(fd, buf, size);
    if (n < 0)
        return n;
    if ((size_t)n == size)
        return -EOVERFLOW;
    if (n > 0 && buf[n - 1] == '\n')
        n--;
    buf[n] = '\0';
    return n;
}

/* One write: kernel files take each as a command of its own. */
int io_write_at(int dir_fd, const char *name, const char *text)
{
    auto_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return -errno;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int io_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

int io_temp_file(void)
{
    static const char *const places[] = { "/var/tmp", "/tmp" };
    int fd = -1;

    for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(places[0]); i++)
        fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd;
}
