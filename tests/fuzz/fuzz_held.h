/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_HELD_H
#define VIAL_TESTS_FUZZ_HELD_H

/* A secret with rules, for one host. */

#include "fuzz.h"
#include "secrets/secrets.h"

#define HOST  "api.test"
#define VALUE "open-sesame-open"
#define STAND "PLACEHOLDER-0123"

static inline struct held *hold(void)
{
    static char said[][32] = {
        "secret KEY",     "from env:KEY",    "host " HOST,
        "only GET /v1/*", "only POST /v1/x", "header X-Added: 1",
        "request 4000",   "response 4000",   "placeholder " STAND
    };
    char *lines[sizeof(said) / sizeof(said[0])];
    struct held *held = calloc(1, sizeof(*held));
    size_t at = 0;

    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        lines[i] = said[i];
    MUST(held && !secret_read(lines, sizeof(lines) / sizeof(lines[0]), &at,
                              &held->all[0].secret));
    held->count = 1;
    held->all[0].value = strdup(VALUE);
    MUST(pattern_make(&held->all[0].pattern, VALUE, strlen(VALUE), STAND));
    return held;
}

static inline void let_go(struct held *held)
{
    free(held->all[0].value);
    free(held->all[0].pattern.value);
    free(held->all[0].pattern.instead);
    free(held);
}

#endif
