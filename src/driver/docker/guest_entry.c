/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/guest_entry.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/tar.h"
#include "driver/docker/container.h"
#include "driver/docker/mux.h"
#include "driver/process/temp_dir.h"

#define GUEST_MAX (16 << 20) /* far more than it ever is */
#define BRING_MS  30000
#define BROUGHT   "brought"
#define COME_MS   30000 /* a guest that has started is there at once */

int guest_entry_choose(const struct api *api, enum guest_entry *out, bool *only,
                       struct vial_error *err)
{
    static const char *const names[] = { "bind", "copy", "exec" };
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *asked = getenv("VIAL_TEST_PLACE");

    *out = api->remote ? ENTRY_COPY : ENTRY_BIND;
    *only = asked != NULL;
    if (!asked)
        return 0;
    for (int i = 0; i < ENTRY_COUNT_; i++)
        if (str_eq(asked, names[i])) {
            *out = (enum guest_entry)i;
            return 0;
        }
    return fail(err, VIAL_E_VALUE, "VIAL_TEST_PLACE '%s' is not bind, copy or exec",
                asked);
}

/* An engine in another mount namespace, or one that a plug-in keeps from it. */
bool guest_entry_is_refused(const struct vial_error *why)
{
    return strstr(why->cause, CONTAINER_GUEST_FILE) != NULL ||
           strstr(why->cause, CONTAINER_GUEST_DIR) != NULL ||
           fail_is(why, VIAL_E_MOUNT);
}

static int read_guest(int guest_fd, struct blob *out, struct vial_error *err)
{
    struct stat st;

    if (fstat(guest_fd, &st) < 0)
        return fail_sys(err, "look at the guest program");
    if (st.st_size <= 0 || st.st_size > GUEST_MAX)
        return fail(err, VIAL_E_GUEST, "the guest program has a strange size");
    out->data = malloc((size_t)st.st_size + 1);
    if (!out->data)
        return fail_memory(err);
    out->len = (size_t)st.st_size;
    if (pread(guest_fd, out->data, out->len, 0) != st.st_size)
        return fail_sys(err, "read the guest program");
    out->data[out->len] = '\0';
    return 0;
}

static void pack_guest(const struct blob *guest, struct str *out)
{
    char name[] = CONTAINER_GUEST_FILE;
    const struct tar_entry entry = {
        .path = name, .type = '0', .mode = 0555, .size = guest->len
    };
    size_t padding = (TAR_BLOCK - guest->len % TAR_BLOCK) % TAR_BLOCK;

    tar_write(out, &entry);
    str_add(out, guest->data, guest->len);
    for (size_t i = 0; i < padding; i++)
        str_putc(out, '\0');
    tar_write_end(out);
}

int guest_entry_copy(const struct api *api, const char *id, int guest_fd,
                     struct vial_error *err)
{
    auto_str struct str tar = { 0 };
    struct blob guest = { 0 };
    struct blob archive = { 0 };
    char target[160];
    struct api_call call = { .method = "PUT",
                             .target = target,
                             .archive = &archive,
                             .about = "put the guest into the container" };
    int rc = read_guest(guest_fd, &guest, err);

    (void)snprintf(target, sizeof(target), "/containers/%s/archive?path=%s", id,
                   CONTAINER_GUEST_DIR);
    if (rc == 0)
        pack_guest(&guest, &tar);
    blob_done(&guest);
    if (rc < 0 || !str_ok(&tar))
        return rc < 0 ? -1 : fail_memory(err);
    archive = (struct blob){ tar.data, tar.len }; /* borrowed */
    return api_do(api, &call, NULL, err);
}

/* Has the engine start COMMAND (taken) in the container; *FD is its stream. */
static int exec_in(const struct guest_entry_in *in, json_t *command, int *fd,
                   struct str *early, struct vial_error *err)
{
    auto_json json_t *body = json_pack(
        "{s:b, s:b, s:b, s:b, s:b, s:s, s:o}", "AttachStdin", 1, "AttachStdout", 1,
        "AttachStderr", 0, "Tty", 0, "Privileged", 0, "User", in->user, "Cmd", command);
    auto_json json_t *how = json_pack("{s:b, s:b}", "Detach", 0, "Tty", 0);
    auto_json json_t *answer = NULL;
    char target[192];
    struct api_call make = {
        .method = "POST", .target = target, .body = body, .about = "prepare the guest"
    };
    struct api_call start = {
        .method = "POST", .target = target, .body = how, .about = "start the guest"
    };
    const char *exec = NULL;

    if (!body || !how)
        return fail_memory(err);
    (void)snprintf(target, sizeof(target), "/containers/%s/exec", in->id);
    if (api_do(in->api, &make, &answer, err) < 0)
        return -1;
    exec = json_string_value(json_object_get(answer, "Id"));
    if (!exec || strlen(exec) > 80 || strspn(exec, "0123456789abcdef") != strlen(exec))
        return fail(err, VIAL_E_ENGINE_API, "prepare the guest: it has no id");
    (void)snprintf(target, sizeof(target), "/exec/%s/start", exec);
    return api_attach(in->api, &start, fd, early, err);
}

static int wait_on(int fd, short events, int64_t end_ns, struct vial_error *err)
{
    struct pollfd p = { .fd = fd, .events = events };
    int64_t left_ms = (end_ns - clock_now_ns()) / 1000000;

    if (left_ms > 0 && poll(&p, 1, (int)left_ms) != 0)
        return 0;
    return fail(err, VIAL_E_ENGINE_TIMEOUT, "bring the guest: the engine is too slow");
}

static int send_guest(int fd, const struct blob *guest, int64_t end_ns,
                      struct vial_error *err)
{
    size_t sent = 0;

    while (sent < guest->len) {
        ssize_t n = send(fd, guest->data + sent, guest->len - sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            sent += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return fail_sys(err, "bring the guest");
        else if (wait_on(fd, POLLOUT, end_ns, err) < 0)
            return -1;
    }
    return shutdown(fd, SHUT_WR) < 0 ? fail_sys(err, "bring the guest") : 0;
}

/* Until the shell has ended; its last word says whether all went well. */
static int hear(int fd, struct str *heard, int64_t end_ns, struct vial_error *err)
{
    struct mux mux = { 0 };
    char data[1024];

    for (;;) {
        ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);

        if (n == 0 || heard->len > sizeof(data))
            break;
        if (n > 0)
            str_add(heard, data, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR)
            break;
        else if (wait_on(fd, POLLIN, end_ns, err) < 0)
            return -1;
    }
    if (!str_ok(heard))
        return fail_memory(err);
    ssize_t kept = mux_strip(&mux, (uint8_t *)heard->data, heard->len);
    if (kept == (ssize_t)strlen(BROUGHT) &&
        memcmp(heard->data, BROUGHT, (size_t)kept) == 0)
        return 0;
    (void)fail(err, VIAL_E_GUEST, "bring the guest: the image cannot take it");
    return fail_remedy(err, "use an image with sh, cat and chmod in it, or an engine "
                            "on this host");
}

static int bring(const struct guest_entry_in *in, int guest_fd, struct vial_error *err)
{
    int64_t end_ns = clock_now_ns() + INT64_C(1000000) * BRING_MS;
    auto_str struct str heard = { 0 };
    struct blob guest = { 0 };
    auto_fd int fd = -1;
    int rc =
        exec_in(in,
                json_pack("[s, s, s]", "/bin/sh", "-c",
                          "umask 077; cat >" CONTAINER_GUEST_TMP
                          " && chmod 500 " CONTAINER_GUEST_TMP " && printf " BROUGHT),
                &fd, &heard, err);

    if (rc == 0)
        rc = read_guest(guest_fd, &guest, err);
    if (rc == 0)
        rc = send_guest(fd, &guest, end_ns, err);
    blob_done(&guest);
    return rc < 0 ? -1 : hear(fd, &heard, end_ns, err);
}

int guest_entry_exec(const struct guest_entry_in *in, int guest_fd, int *fd,
                     struct str *early, struct vial_error *err)
{
    if (bring(in, guest_fd, err) < 0)
        return -1;
    return exec_in(in,
                   json_pack("[s, s, s]", CONTAINER_GUEST_TMP, "--stdio", "--forget"),
                   fd, early, err);
}

struct guest_socket {
    struct place place; /* ours alone, and removed by others should we be killed */
    char *dir;          /* in it: the one that is shown */
    struct sockaddr_un address;
    int listen_fd;
};

static int listen_at(struct guest_socket *l, struct vial_error *err)
{
    int n = snprintf(l->address.sun_path, sizeof(l->address.sun_path),
                     "%s/" GUEST_SOCKET_NAME, l->dir);

    if (n <= 0 || (size_t)n >= sizeof(l->address.sun_path))
        return fail(err, VIAL_E_OPEN, "'%s' is too long for a socket", l->dir);
    l->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The guest may come as any user of the container; on the host nobody else gets
     * into the directory. */
    if (l->listen_fd < 0 || chmod(l->dir, 0711) < 0 ||
        bind(l->listen_fd, (struct sockaddr *)&l->address, sizeof(l->address)) < 0 ||
        chmod(l->address.sun_path, 0666) < 0 || listen(l->listen_fd, 1) < 0)
        return fail_sys(err, "listen at '%s'", l->address.sun_path);
    return 0;
}

int guest_socket_open(struct guest_socket **out, struct vial_error *err)
{
    struct guest_socket *l = calloc(1, sizeof(*l));

    if (!l)
        return fail_memory(err);
    l->place = (struct place)PLACE_NONE;
    l->address.sun_family = AF_UNIX;
    l->listen_fd = -1;
    if (temp_dir_create(&l->place, err) < 0) {
        guest_socket_close(l);
        return -1;
    }
    l->dir = path_join(l->place.dir, "tmp");
    if (!l->dir || listen_at(l, err) < 0) {
        guest_socket_close(l);
        return -1;
    }
    *out = l;
    return 0;
}

const char *guest_socket_dir(const struct guest_socket *l)
{
    return l->dir;
}

/* A number that cannot be seen from here is 0. */
static bool is_from(int fd, pid_t pid)
{
    struct ucred peer = { 0 };
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (pid <= 0 || peer.pid == pid);
}

int guest_socket_take(struct guest_socket *l, int stream_fd, pid_t pid)
{
    struct pollfd ready[] = { { .fd = l->listen_fd, .events = POLLIN },
                              { .fd = stream_fd, .events = POLLIN } };
    auto_fd int fd = -1;
    int rc;

    do
        rc = poll(ready, 2, COME_MS);
    while (rc < 0 && errno == EINTR);
    if (rc > 0 && ready[0].revents)
        fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd >= 0 && is_from(fd, pid) ? fd_take(&fd) : -1;
}

void guest_socket_close(struct guest_socket *l)
{
    if (!l)
        return;
    auto_fd_(&l->listen_fd);
    temp_dir_remove(&l->place);
    free(l->dir);
    free(l);
}
