/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/talk/talk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"

/* Room for more than may come, so that what is too much can be told and closed. */
#define ROOM 16

void talk_fds_done(struct talk_fds *fds)
{
    for (size_t i = 0; i < fds->count; i++)
        auto_fd_(&fds->fd[i]);
    fds->count = 0;
}

int talk_send(int fd, const struct pack *p, const int *fds, size_t count)
{
    ssize_t n;

    if (p->bad || count > TALK_FDS || p->len > TALK_MAX)
        return p->bad ? -ENOMEM : -EMSGSIZE;
    n = sys_send_fds(fd, (struct iovec){ p->data, p->len }, fds, count, MSG_DONTWAIT);
    return n < 0 ? (int)n : 0;
}

/* Closes those for which OUT has no place. False: there were any. */
static bool take_rights(struct cmsghdr *c, struct talk_fds *out)
{
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    bool fit = true;

    for (size_t i = 0; i < count; i++) {
        int fd = -1;

        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
        if (out && out->count < TALK_FDS) {
            out->fd[out->count++] = fd;
            continue;
        }
        (void)close(fd);
        fit = false;
    }
    return fit;
}

static bool take_all(struct msghdr *message, struct talk_fds *out)
{
    bool fit = !(message->msg_flags & (MSG_TRUNC | MSG_CTRUNC));

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            fit = take_rights(c, out) && fit;
    return fit;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes there */
ssize_t talk_receive(int fd, uint8_t *buf, size_t size, struct talk_fds *fds)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * ROOM)];
    struct iovec iov = { buf, size };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof(room) };
    ssize_t n;

    if (fds)
        fds->count = 0;
    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    if (take_all(&message, fds))
        return n;
    if (fds)
        talk_fds_done(fds);
    return -EMSGSIZE;
}

void talk_write_error(struct pack *p, const struct vial_error *err)
{
    pack_u32(p, TALK_BAD);
    pack_text(p, err->code);
    pack_text(p, err->message);
    pack_text(p, err->cause);
    pack_text(p, err->remedy);
    pack_u32(p, (uint32_t)err->sys);
}

static void copy_text(struct unpack *u, char *out, size_t size)
{
    size_t len = 0;
    const uint8_t *bytes = unpack_bytes(u, &len);

    (void)snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1),
                   bytes ? (const char *)bytes : "");
}

static bool is_code(const char *text)
{
    for (int i = 0; i < VIAL_E__COUNT; i++)
        if (strcmp(fail_code_text((enum fail_code)i), text) == 0)
            return true;
    return false;
}

void talk_read_error(struct unpack *u, struct vial_error *out)
{
    struct vial_error e = { 0 };

    copy_text(u, e.code, sizeof(e.code));
    copy_text(u, e.message, sizeof(e.message));
    copy_text(u, e.cause, sizeof(e.cause));
    copy_text(u, e.remedy, sizeof(e.remedy));
    e.sys = (int)unpack_u32(u);
    if (!unpack_finished(u) || !is_code(e.code)) {
        (void)fail(out, VIAL_E_KEEPER, "the keeper's answer makes no sense");
        return;
    }
    if (out)
        *out = e;
}
