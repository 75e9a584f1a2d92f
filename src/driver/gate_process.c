/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/gate_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/public_address.h"
#include "base/sys.h"
#include "driver/helper.h"
#include "driver/secrets_process.h"
#include "wire/frame.h"
#include "wire/gate_message.h"

#define BACKLOG     128  /* connections that wait for the gate */
#define CONNECTIONS 256u /* at once */
#define BEYOND      16u  /* that guests may try, so that the gate can tell of it */

/* One frame on channel 0; FD goes with it unless it is -1. */
static int say(int to_fd, uint8_t type, const struct pack *p, int fd)
{
    struct frame f = { .type = type, .len = (uint32_t)p->len };
    struct pack whole = { 0 };
    uint8_t header[WIRE_HEADER];
    ssize_t n;

    frame_write_header(header, &f);
    pack_raw(&whole, header, sizeof(header));
    pack_raw(&whole, p->data, p->len);
    if (p->bad || whole.bad) {
        pack_done(&whole);
        return -ENOMEM;
    }
    n = sys_send_fds(to_fd, (struct iovec){ whole.data, whole.len }, &fd,
                     fd >= 0 ? 1 : 0, MSG_DONTWAIT);
    n = n >= 0 && (size_t)n != whole.len ? -EMSGSIZE : n;
    pack_done(&whole);
    return n < 0 ? (int)n : 0;
}

static int configure(int owner_fd, const struct plan *plan, const struct strv *secrets)
{
    const struct plan_gate *gate = &plan->gate;
    const struct limits *l = &plan->limits;
    const struct gate_config config = {
        .allow = gate->allow.items,
        .deny = gate->deny.items,
        .unchecked = gate->unchecked.items,
        .resolvers = gate->resolvers.items,
        .private_in = gate->private_in.items,
        .secrets = secrets->items,
        .connections = CONNECTIONS,
        .listeners = (uint32_t)plan->container.port_count,
        .limits = { (uint64_t)l->network_connections, (uint64_t)l->network_rate,
                    (uint64_t)l->network_in, (uint64_t)l->network_out }
    };
    struct pack p = { 0 };
    int rc;

    gate_config_write(&p, &config);
    rc = say(owner_fd, GATE_CONFIG, &p, -1);
    pack_done(&p);
    return rc;
}

static int listen_at(const struct plan_port *port)
{
    struct sockaddr_storage at;
    struct address a = { 0 };
    socklen_t size = 0;
    const int one = 1;
    int fd = -1, rc = 0;

    if (!address_parse(port->address, &a))
        return -EINVAL;
    size = address_socket(&a, (uint16_t)port->host, &at);
    fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (a.v6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    rc = -errno;
    (void)close(fd);
    return rc;
}

/* Ports of this host: the gate, which may not listen itself, gets the sockets. */
static int publish(int owner_fd, const struct plan_port *port, struct vial_error *err)
{
    auto_fd int fd = listen_at(port);
    struct pack p = { 0 };
    int rc = fd;

    if (rc >= 0) {
        pack_u32(&p, port->inside);
        rc = say(owner_fd, GATE_LISTEN, &p, fd);
        pack_done(&p);
    }
    if (rc >= 0)
        return 0;
    (void)fail_sys_rc(err, rc, "publish port %s:%u", port->address, port->host);
    (void)fail_as(err, VIAL_E_ENGINE_PORT);
    return fail_remedy(err, "publish another port of this host");
}

static int publish_all(const struct gate_process *gate, const struct plan *plan,
                       struct vial_error *err)
{
    for (size_t i = 0; i < plan->container.port_count; i++)
        if (publish(gate->owner_fd, &plan->container.ports[i], err) < 0)
            return -1;
    return 0;
}

/* The first that its guest hears: who it can reach, and by what. */
static int introduce(int stream_fd, const struct plan_gate *gate, int link_fd)
{
    struct pack p = { 0 };
    int rc;

    pack_texts(&p, gate->allow.items, gate->allow.count);
    pack_texts(&p, gate->deny.items, gate->deny.count);
    pack_u32(&p, CONNECTIONS + BEYOND);
    rc = say(stream_fd, WIRE_GATE, &p, link_fd);
    pack_done(&p);
    return rc;
}

static int start(const char *path, const struct plan *plan, int stream_fd,
                 struct gate_process *out, struct vial_error *err)
{
    static const char *const args[] = { "vial-gate", NULL };
    auto_fd int link_ours = -1, link_theirs = -1, owner_theirs = -1, secrets_fd = -1;
    auto_strv struct strv secrets = { 0 };
    int pair[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail_sys(err, "make a socket pair");
    link_ours = pair[0];
    link_theirs = pair[1];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail_sys(err, "make a socket pair");
    out->owner_fd = pair[0];
    owner_theirs = pair[1];
    if (io_set_nonblocking(link_ours) < 0)
        return fail_sys(err, "prepare the gate");
    if (plan->gate.secrets.count) {
        out->secrets_pidfd =
            secrets_process_start(&plan->gate, &secrets_fd, &out->authority, err);
        if (out->secrets_pidfd < 0 ||
            secrets_process_rules(&plan->gate, &secrets, err) < 0)
            return -1;
    }
    if (helper_lift(&link_theirs) < 0 || helper_lift(&owner_theirs) < 0 ||
        (secrets_fd >= 0 && helper_lift(&secrets_fd) < 0))
        return fail_sys(err, "prepare the gate");
    rc =
        helper_start(path, args, (const int[]){ link_theirs, owner_theirs, secrets_fd },
                     secrets_fd >= 0 ? 3 : 2);
    if (rc < 0)
        return fail_sys_rc(err, rc, "start '%s'", path);
    out->pidfd = rc;
    rc = configure(out->owner_fd, plan, &secrets);
    rc = rc < 0 ? rc : introduce(stream_fd, &plan->gate, link_ours);
    return rc < 0 ? fail_sys_rc(err, rc, "tell the gate its rules") : 0;
}

int gate_process_start(const struct plan *plan, int stream_fd, struct gate_process *out,
                       struct vial_error *err)
{
    char path[HELPER_PATH];
    int rc;

    *out = GATE_PROCESS_NONE;
    if (!helper_find("vial-gate", path)) {
        (void)fail(err, VIAL_E_OPEN, "there is no program 'vial-gate'");
        return fail_remedy(err, "install vial whole: it lies beside the guest");
    }
    rc = start(path, plan, stream_fd, out, err) < 0 ? fail_as(err, VIAL_E_OPEN)
                                                    : publish_all(out, plan, err);
    if (rc < 0)
        gate_process_end(out);
    return rc;
}

void gate_process_end(struct gate_process *gate)
{
    auto_fd_(&gate->owner_fd);
    gate->owner_fd = -1;
    helper_end(&gate->pidfd);
    helper_end(&gate->secrets_pidfd);
    free(gate->authority);
    gate->authority = NULL;
}
