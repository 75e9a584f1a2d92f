/* SPDX-License-Identifier: Apache-2.0 */
#include "base/network_share.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MINUTE_NS UINT64_C(60000000000)

static uint64_t period_ns(enum network_bucket bucket)
{
    return bucket == NETWORK_RATE ? MINUTE_NS : 60 * MINUTE_NS;
}

static int make(struct network_share **out)
{
    int fd = memfd_create("network-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, sizeof **out) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        at = mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) {
        *out = at;
        return fd;
    }
    (void)close(fd);
    return -ENOMEM;
}

int network_share_new(struct network_share **out)
{
    return make(out);
}

void network_share_free(struct network_share *share)
{
    if (share)
        (void)munmap(share, sizeof *share);
}

void network_share_set(struct network_share *share, const struct network_quota *quota)
{
    atomic_store(&share->open_most, (uint64_t)quota->open);
    atomic_store(&share->most[NETWORK_RATE], (uint64_t)quota->per_minute);
    atomic_store(&share->most[NETWORK_IN], (uint64_t)quota->in_per_hour);
    atomic_store(&share->most[NETWORK_OUT], (uint64_t)quota->out_per_hour);
}

uint32_t network_share_enter(struct network_share *share, uint32_t taker)
{
    uint32_t i = 0;

    while (i < NETWORK_PLACES && atomic_load(&share->places[i].taker))
        i++;
    if (i == NETWORK_PLACES)
        return i;
    atomic_store(&share->places[i].taker, taker);
    if (i >= atomic_load(&share->used))
        atomic_store(&share->used, i + 1);
    return i;
}

void network_share_leave(struct network_share *share, uint32_t place)
{
    if (place < NETWORK_PLACES)
        atomic_store(&share->places[place].taker, 0);
}

bool network_hold_map(struct network_hold *hold, int fd, uint32_t place, uint32_t taker)
{
    void *at =
        mmap(NULL, sizeof *hold->share, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED || place >= NETWORK_PLACES || !taker)
        return false;
    *hold = (struct network_hold){ .share = at, .place = place, .taker = taker };
    return true;
}

static void tell_open(struct network_hold *hold)
{
    atomic_store(&hold->share->places[hold->place].open,
                 (uint64_t)hold->taker << 32 | hold->open);
}

/* Of all the caller's gates. */
static uint64_t count_open(struct network_share *share)
{
    uint32_t used = atomic_load(&share->used);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < used && i < NETWORK_PLACES; i++) {
        uint32_t taker = atomic_load(&share->places[i].taker);
        uint64_t open = atomic_load(&share->places[i].open);

        sum += taker && open >> 32 == taker ? (uint32_t)open : 0;
    }
    return sum;
}

/* How long AMOUNT takes to come back; more than two periods ahead nobody is set. */
static uint64_t cost_ns(enum network_bucket bucket, uint64_t amount, uint64_t most)
{
    double ns = (double)amount / (double)most * (double)period_ns(bucket);

    return ns < 2.0 * (double)period_ns(bucket) ? (uint64_t)ns : 2 * period_ns(bucket);
}

/* Takes AMOUNT; ONLY_IF_THERE: or leaves all, and says so, where that is more than is
 * left. */
static bool take(struct network_share *share, enum network_bucket bucket,
                 uint64_t amount, uint64_t now_ns, bool only_if_there)
{
    uint64_t most = atomic_load(&share->most[bucket]);
    uint64_t at = atomic_load(&share->full_ns[bucket]);
    uint64_t next;

    if (!most)
        return true;
    do {
        next = (at > now_ns ? at : now_ns) + cost_ns(bucket, amount, most);
        if (next > now_ns + 2 * period_ns(bucket))
            next = now_ns + 2 * period_ns(bucket);
        if (only_if_there && next > now_ns + period_ns(bucket))
            return false;
    } while (!atomic_compare_exchange_weak(&share->full_ns[bucket], &at, next));
    return true;
}

bool network_hold_connection(struct network_hold *hold, uint64_t now_ns)
{
    uint64_t most;

    if (!hold->share)
        return true;
    most = atomic_load(&hold->share->open_most);
    hold->open++;
    tell_open(hold);
    if ((!most || count_open(hold->share) <= most) &&
        take(hold->share, NETWORK_RATE, 1, now_ns, true))
        return true;
    network_hold_closed(hold);
    return false;
}

void network_hold_closed(struct network_hold *hold)
{
    if (!hold->share || !hold->open)
        return;
    hold->open--;
    tell_open(hold);
}

void network_hold_pay(struct network_hold *hold, enum network_bucket bucket,
                      uint64_t amount, uint64_t now_ns)
{
    if (hold->share && amount)
        (void)take(hold->share, bucket, amount, now_ns, false);
}

bool network_hold_spent(const struct network_hold *hold, uint64_t now_ns)
{
    for (int b = NETWORK_IN; hold->share && b <= NETWORK_OUT; b++)
        if (atomic_load(&hold->share->most[b]) &&
            atomic_load(&hold->share->full_ns[b]) > now_ns + period_ns(b))
            return true;
    return false;
}
