/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/agent.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "serve/listen.h"

/* A proxy would take 0 % for "send nothing". */
#define LEAST_PERCENT 1u
#define PAUSE_MS      100

int agent_bind(struct agent *a, const struct serve_settings *s, struct vial_error *err)
{
    return s->agent ? listen_open_agent(s->agent, &a->fd, err) : 0;
}

static unsigned free_percent(struct serve *s)
{
    struct generation *gen = serve_use(s);
    unsigned most = gate_most(gen->settings->serve.concurrency);
    unsigned running, waiting;

    serve_unuse(s, gen);
    gate_count(&s->gate, &running, &waiting);
    if (running + waiting >= most)
        return LEAST_PERCENT;
    return (most - running - waiting) * 100 / most;
}

/* What is said fits into any socket's buffer: nobody is waited for. */
static void answer(struct agent *a)
{
    char line[32] = "drain\n";
    int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) { /* no descriptor is left: let others give some back */
        (void)poll(&(struct pollfd){ .fd = a->stop_fd, .events = POLLIN }, 1, PAUSE_MS);
        return;
    }
    if (!a->serve->draining)
        (void)snprintf(line, sizeof(line), "ready %u%%\n", free_percent(a->serve));
    (void)send(fd, line, strlen(line), MSG_NOSIGNAL);
    (void)close(fd);
}

static void *say(void *context)
{
    struct agent *a = context;

    for (;;) {
        struct pollfd fds[] = { { .fd = a->fd, .events = POLLIN },
                                { .fd = a->stop_fd, .events = POLLIN } };

        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            return NULL;
        answer(a);
    }
}

int agent_open(struct agent *a, struct serve *serve, struct vial_error *err)
{
    if (a->fd < 0)
        return 0;
    a->serve = serve;
    a->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (a->stop_fd < 0)
        return fail_sys(err, "make the agent's descriptor");
    if (thread_start(&a->thread, THREAD_STACK, say, a) == 0)
        return 0;
    (void)close(a->stop_fd);
    a->stop_fd = -1;
    return fail_memory(err);
}

void agent_close(struct agent *a)
{
    if (a->stop_fd >= 0) {
        (void)eventfd_write(a->stop_fd, 1);
        (void)pthread_join(a->thread, NULL);
        (void)close(a->stop_fd);
    }
    if (a->fd >= 0)
        (void)close(a->fd);
    *a = (struct agent){ .fd = -1, .stop_fd = -1 };
}
