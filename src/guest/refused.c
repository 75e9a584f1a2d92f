/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How often programs tried a network where there is none, by the counters of the
 * vessel's own network namespace: what had no route, and datagrams to a port of
 * loopback at which nobody listens, which is how a lookup of a name looks without a
 * name server. Only read where the host says that the namespace is the vessel's own.
 */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/guest.h"

#define TEXT_MAX 4096

/* The value under NAME in the two lines of TEXT that begin with KIND, the first of
 * which has the names. 0: there is none. */
static uint64_t in_table(const char *text, const char *kind, const char *name)
{
    const char *names = strstr(text, kind);
    const char *values = names ? strstr(names + 1, kind) : NULL;
    size_t len = strlen(name);

    while (names && values && *names && *names != '\n') {
        if (strncmp(names, name, len) == 0 && (names[len] == ' ' || names[len] == '\n'))
            return strtoull(values, NULL, 10);
        names += strcspn(names, " \n");
        values += strcspn(values, " \n");
        if (*names != ' ' || *values != ' ')
            return 0;
        names++;
        values++;
    }
    return 0;
}

static uint64_t in_list(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Opened once: sessions ask again and again. */
static bool read_text(int *fd, const char *path, char text[TEXT_MAX])
{
    ssize_t n;

    if (*fd < 0)
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    n = *fd < 0 ? -1 : pread(*fd, text, TEXT_MAX - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

uint64_t refused_since(struct guest *g)
{
    char text[TEXT_MAX];
    uint64_t all = 0;
    uint64_t before = g->refused;

    if (!(g->jail.flags & JAIL_NO_NETWORK))
        return 0;
    if (read_text(&g->refused_fd[0], "/proc/net/snmp", text))
        all +=
            in_table(text, "Ip: ", "OutNoRoutes") + in_table(text, "Udp: ", "NoPorts");
    if (read_text(&g->refused_fd[1], "/proc/net/snmp6", text))
        all += in_list(text, "\nIp6OutNoRoutes") + in_list(text, "\nUdp6NoPorts");
    g->refused = all;
    return all > before ? all - before : 0;
}
