/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/holes.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM_MAX  ((size_t)64 << 10) /* below what libc asks the system for */
#define ROOM_STEP 16
#define ROOMS_MAX 65536 /* of all sizes: this is a favour, not a duty */
#define SMALL     2048  /* what libc keeps for the next who asks */

#define BLOCK_MAX  512 /* python's own pools hold nothing larger */
#define BLOCKS_MAX 4096
#define POOL       16384 /* since 3.10; a quarter of it before, which will do */
#define HEAD       48    /* of a pool, before its first block */

typedef void *take_fn(size_t size);

/* Largest first, so that none is cut for a smaller one. What lies beyond the old end
 * says that no hole is left; small pieces of that are kept, or libc would hand them
 * out first. */
static void fill_heap(void)
{
    uintptr_t end = (uintptr_t)sbrk(0);
    unsigned left = ROOMS_MAX;

    for (size_t size = ROOM_MAX; size >= ROOM_STEP; size -= ROOM_STEP)
        for (; left > 0; left--) {
            void *at = malloc(size + ROOM_STEP / 2);

            if ((uintptr_t)at < end && at)
                continue;
            if (size > SMALL)
                free(at);
            break;
        }
}

/* Two neighbours at its head tell a fresh pool. */
static void fill_pools(take_fn *take, size_t size)
{
    uintptr_t last = 0;

    for (int i = 0; i < BLOCKS_MAX; i++) {
        uintptr_t at = (uintptr_t)take(size);

        if (at == 0 || (last % POOL == HEAD && at == last + size))
            return;
        last = at;
    }
}

void holes_fill(void)
{
    take_fn *take = NULL;

    *(void **)(void *)&take = dlsym(RTLD_DEFAULT, "PyObject_Malloc");
    for (size_t size = ROOM_STEP; take && size <= BLOCK_MAX; size += ROOM_STEP)
        fill_pools(take, size);
    fill_heap();
}
