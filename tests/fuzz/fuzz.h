/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_H
#define VIAL_TESTS_FUZZ_H

/* For fuzz targets, which are also run as unit tests over their corpora
 * (tests/unit/test_corpus.c). */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What must hold for every input. */
#define MUST(claim)                                                                    \
    do {                                                                               \
        if (!(claim))                                                                  \
            abort();                                                                   \
    } while (0)

#endif
