/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "web/server.h"

static int spill(struct body *b)
{
    b->fd = memfd_create("body", MFD_CLOEXEC);
    if (b->fd < 0 || io_write_all(b->fd, b->small.data, b->small.len) < 0)
        return -1;
    str_done(&b->small);
    b->small = (struct str){ 0 };
    return 0;
}

int body_add(struct body *b, const void *data, size_t len)
{
    if (b->fd < 0 && b->len + len > WEB_SMALL_BODY && spill(b) < 0)
        return -1;
    if (b->fd >= 0 && io_write_all(b->fd, data, len) < 0)
        return -1;
    if (b->fd < 0)
        str_add(&b->small, data, len);
    b->len += len;
    return b->fd >= 0 || str_ok(&b->small) ? 0 : -1;
}

int body_end(struct body *b)
{
    void *map;

    if (b->fd < 0)
        return 0;
    map = mmap(NULL, b->len, PROT_READ, MAP_PRIVATE, b->fd, 0);
    if (map == MAP_FAILED)
        return -1;
    b->map = map;
    return 0;
}

const char *body_data(const struct body *b)
{
    if (b->map)
        return b->map;
    return b->small.data ? b->small.data : "";
}

int body_fd(struct body *b)
{
    if (b->fd < 0) {
        b->fd = memfd_create("body", MFD_CLOEXEC);
        if (b->fd >= 0 && io_write_all(b->fd, b->small.data, b->small.len) < 0) {
            (void)close(b->fd);
            b->fd = -1;
        }
    }
    return b->fd >= 0 && lseek(b->fd, 0, SEEK_SET) == 0 ? b->fd : -1;
}

void body_done(struct body *b)
{
    if (b->map)
        (void)munmap(b->map, b->len);
    if (b->fd >= 0)
        (void)close(b->fd);
    str_done(&b->small);
    *b = (struct body){ .fd = -1 };
}
