/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_POOL_LIMITS_H
#define VIAL_ENGINE_POOL_POOL_LIMITS_H

/*
 * How much a pool may hold: memory, as its options say, and descriptors of this
 * process. Those are the caller's: a vessel holds some of them for as long as it is
 * open, and whoever has none left can neither run anything nor do his own work. A pool
 * may have a quarter of them without a look; beyond that, it opens another vessel only
 * while half of them are free, whoever has the others.
 */

#include <stdbool.h>

/* The most that one vessel holds, and about what opening one takes meanwhile. */
#define DESCRIPTORS_EACH 24

struct descriptors {
    unsigned limit; /* RLIMIT_NOFILE, as it is now */
    unsigned open;  /* counted; LIMIT where they cannot be */
};

struct descriptors descriptors_now(void);

/* One more vessel may be opened by a pool that has HELD, of which MAKING are under way
 * and hold nothing yet. */
bool descriptors_allow(unsigned held, unsigned making);
/* Of a pool with HELD some should go: less than a quarter is free. */
bool descriptors_are_short(unsigned held);

#endif
