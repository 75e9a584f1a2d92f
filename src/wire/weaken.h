/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_WEAKEN_H
#define VIAL_WIRE_WEAKEN_H

/* Test builds (-Dweaken=true) can switch single layers and duties off, to prove that
 * their tests can fail: VIAL_TEST_WEAKEN="seccomp,net". A layer switched off is absent
 * from the vessel's layers. Other builds have no such code. It lies here because host
 * and guest both use it. */

#include <stdbool.h>

#ifdef VIAL_WEAKEN
    #include <stdlib.h>
    #include <string.h>

static inline bool weaken(const char *layer)
{
    const char *at = getenv("VIAL_TEST_WEAKEN"); /* NOLINT(concurrency-mt-unsafe) */
    size_t len = strlen(layer);

    while (at && *at) {
        size_t n = strcspn(at, ",");

        if (n == len && memcmp(at, layer, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}
#else
    #define weaken(layer) false
#endif

#endif
