/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/secrets_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/sys.h"
#include "driver/helper.h"
#include "model/secret.h"
#include "wire/frame.h"
#include "wire/gate_message.h"

#define READY_MS  20000
#define VALUE_MAX 8192

/* A regular file's bytes without the line's end. */
static int read_file(const char *path, struct blob *out, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return fail_sys(err, "read '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail(err, VIAL_E_FILE, "'%s' is not a regular file", path);
    if (io_read_fd(fd, path, VALUE_MAX, out, err) < 0)
        return -1;
    while (out->len &&
           (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
        out->len--;
    return 0;
}

static int read_value(const struct secret *s, struct blob *out, struct vial_error *err)
{
    const char *value = NULL;

    if (str_starts(s->from, "file:"))
        return read_file(s->from + strlen("file:"), out, err);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    value = getenv(s->from + strlen("env:"));
    if (!value)
        return fail(err, VIAL_E_VALUE, "there is no variable '%s'",
                    s->from + strlen("env:"));
    return blob_set(out, value, strlen(value)) < 0 ? fail_memory(err) : 0;
}

static int pack_values(struct pack *p, const struct plan_gate *gate,
                       struct vial_error *err)
{
    const struct strv *lines = &gate->secrets;
    struct secret s;

    pack_texts(p, lines->items, lines->count);
    for (size_t at = 0; at < lines->count;) {
        struct blob value = { 0 };
        int rc;

        if (secret_read(lines->items, lines->count, &at, &s))
            return fail(err, VIAL_E_INTERNAL, "a secret of the plan is not one");
        rc = read_value(&s, &value, err);
        if (rc == 0)
            pack_bytes(p, value.data ? value.data : "", value.len);
        if (value.data)
            explicit_bzero(value.data, value.len);
        blob_done(&value);
        if (rc < 0)
            return fail_in(err, "secret '%s'", s.name);
    }
    return 0;
}

/* 0 or -errno. It may be dead already: that must not be our end. */
static int send_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int tell(int fd, const struct plan_gate *gate, struct vial_error *err)
{
    struct pack p = { 0 };
    uint8_t header[WIRE_HEADER];
    int rc = pack_values(&p, gate, err);

    if (rc == 0 && p.bad)
        rc = fail_memory(err);
    if (rc == 0) {
        frame_write_header(
            header, &(struct frame){ .type = SECRETS_CONFIG, .len = (uint32_t)p.len });
        rc = send_all(fd, header, sizeof(header));
        rc = rc < 0 ? rc : send_all(fd, p.data, p.len);
        rc = rc < 0 ? fail_sys_rc(err, rc, "tell vial-secrets its secrets") : 0;
    }
    if (p.data)
        explicit_bzero(p.data, p.len);
    pack_done(&p);
    return rc;
}

static bool read_whole(int fd, void *to, size_t len)
{
    char *at = to;

    while (len) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        ssize_t n = poll(&ready, 1, READY_MS) == 1 ? read(fd, at, len) : 0;

        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static int hear(int fd, char **authority, struct vial_error *err)
{
    uint8_t header[WIRE_HEADER];
    auto_free uint8_t *bytes = NULL;
    auto_free char *wrong = NULL;
    struct frame f = { 0 };
    struct unpack u;

    if (read_whole(fd, header, sizeof(header)) &&
        frame_read(header, sizeof(header), GATE_FRAME_MAX, &f) >= 0 &&
        f.type == SECRETS_READY)
        bytes = malloc(f.len + 1);
    if (!bytes || !read_whole(fd, bytes, f.len))
        return fail(err, VIAL_E_OPEN, "vial-secrets does not start");
    u = (struct unpack){ .data = bytes, .len = f.len };
    *authority = unpack_text(&u);
    wrong = unpack_text(&u);
    if (!unpack_finished(&u) || !*authority || !wrong)
        return fail(err, VIAL_E_OPEN, "vial-secrets makes no sense");
    return wrong[0] ? fail(err, VIAL_E_OPEN, "secrets: %s", wrong) : 0;
}

int secrets_process_start(const struct plan_gate *gate, int *link_fd, char **authority,
                          struct vial_error *err)
{
    static const char *const args[] = { "vial-secrets", NULL };
    auto_fd int ours = -1, theirs = -1, far = -1;
    char path[HELPER_PATH];
    int pair[2];
    int pidfd;

    if (!helper_find("vial-secrets", path)) {
        (void)fail(err, VIAL_E_OPEN, "there is no program 'vial-secrets'");
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail_sys(err, "make a socket pair");
    ours = pair[0];
    theirs = pair[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail_sys(err, "make a socket pair");
    *link_fd = pair[0];
    far = pair[1];
    if (helper_lift(&theirs) < 0 || helper_lift(&far) < 0)
        return fail_sys(err, "prepare vial-secrets");
    pidfd = helper_start(path, args, (const int[]){ theirs, far }, 2);
    if (pidfd < 0)
        return fail_sys_rc(err, pidfd, "start '%s'", path);
    (void)close(fd_take(&theirs));
    if (tell(ours, gate, err) == 0 && hear(ours, authority, err) == 0)
        return pidfd;
    helper_end(&pidfd);
    return -1;
}

int secrets_process_rules(const struct plan_gate *gate, struct strv *out,
                          struct vial_error *err)
{
    const struct strv *lines = &gate->secrets;
    struct secret s;

    for (size_t at = 0; at < lines->count;) {
        if (secret_read(lines->items, lines->count, &at, &s))
            return fail(err, VIAL_E_INTERNAL, "a secret of the plan is not one");
        for (size_t i = 0; i < s.host_count; i++)
            strv_printf(out, "%s%s:%u-%u", s.hosts[i].wild ? "*." : "", s.hosts[i].name,
                        s.hosts[i].low, s.hosts[i].high);
    }
    return strv_ok(out) ? 0 : fail_memory(err);
}
