/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that no process has mapped: System V messages, semaphores and segments. Where
 * a cgroup holds the limit it counts them. Elsewhere they can be seen from inside their
 * namespace only, and we hold the same limit for them. */

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "guest/guest.h"

/* The kernel's memory for each, as a round number. */
#define OF_MESSAGE   64u
#define OF_SEMAPHORE 128u
#define OF_OBJECT    1024u

static uint64_t messages(void)
{
    struct msginfo info = { 0 };

    if (msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&info) < 0)
        return 0;
    return (uint64_t)(unsigned)info.msgtql +
           (uint64_t)(unsigned)info.msgmap * OF_MESSAGE +
           (uint64_t)(unsigned)info.msgpool * OF_OBJECT;
}

static uint64_t semaphores(void)
{
    struct seminfo info = { 0 };

    if (semctl(0, 0, SEM_INFO, &info) < 0)
        return 0;
    return (uint64_t)(unsigned)info.semaem * OF_SEMAPHORE +
           (uint64_t)(unsigned)info.semusz * OF_OBJECT;
}

static uint64_t segments(void)
{
    struct shm_info info = { 0 };

    if (shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info) < 0)
        return 0;
    return (uint64_t)info.shm_rss * (uint64_t)sysconf(_SC_PAGESIZE) +
           (uint64_t)(unsigned)info.used_ids * OF_OBJECT;
}

bool hidden_too_much(const struct guest *g)
{
    /* Where a cgroup holds the limit, there is no rlimit for it. A guest that is not
     * pid 1 has no namespaces: it would count the host's. */
    uint64_t limit = g->pid1 ? jail_rlimit(g, RLIMIT_DATA) : UINT64_MAX;

    return limit != UINT64_MAX && messages() + semaphores() + segments() > limit;
}
