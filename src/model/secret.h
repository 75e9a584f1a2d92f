/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_SECRET_H
#define VIAL_MODEL_SECRET_H

/*
 * A secret that programs use and never see (docs/guide/network.md). It is a group of
 * lines, each a word and its value, so that it goes wherever a list of texts does:
 * settings, plan, keeper, vial-secrets. Its value is in none of them.
 *
 *   secret NAME              the variable that programs find
 *   from env:NAME|file:PATH  where its value is, when a vessel is opened
 *   host RULE                where it may go (base/name_rule.h), on 443 unless it says;
 *                            one or more
 *   only METHOD PATH         what may be asked there; a PATH may end in '*'. None: all
 *   header NAME: VALUE       that every request gets
 *   request BYTES            the most that a request's body may have
 *   response BYTES
 *   ca PATH                  whom the host's certificate is from, if not a public one
 *   shape TEXT               what the placeholder looks like: each '*' is made up
 *   placeholder TEXT         what programs see; in plans alone
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name_rule.h"
#include "base/str.h"

#define SECRET_NAME_MAX  64
#define SECRET_MOST      16  /* in one plan */
#define SECRET_HOSTS     16  /* of one */
#define SECRET_RULES     32  /* the same */
#define SECRET_HEADERS   8   /* the same */
#define SECRET_LINES_MAX 512 /* of all */
#define SECRET_LINE      1024
#define SECRET_SHAPE_MAX 256
#define SECRET_STARS     16 /* the fewest that are made up */
#define SECRET_PORT      443

struct secret {
    const char *name, *from;              /* all texts are those of the lines */
    const char *ca, *shape, *placeholder; /* or NULL */
    struct name_rule hosts[SECRET_HOSTS];
    const char *rules[SECRET_RULES], *headers[SECRET_HEADERS];
    size_t host_count, rule_count, header_count;
    uint64_t max_request, max_response; /* 0: any */
};

/* Reads and judges the group that begins at line *AT, and moves *AT behind it. NULL, or
 * what is wrong. */
const char *secret_read(char *const *lines, size_t count, size_t *at,
                        struct secret *out);

/* NAME=SOURCE@HOST,HOST… as lines. NULL, or what is wrong. */
const char *secret_inline(const char *text, struct strv *out);

/* Appends the group NAME of ALL; false: there is none. */
bool secret_find(const struct strv *all, const char *name, struct strv *out);

/* A placeholder of SHAPE (NULL: the usual one), the same for the same SEED and NAME. */
void secret_placeholder(const uint8_t seed[32], const char *name, const char *shape,
                        struct str *out);

/* Whether SECRET may go to NAME at PORT. */
bool secret_goes_to(const struct secret *secret, const char *name, uint16_t port);

/* Whether NAME, LEN bytes, is one of a header. */
bool secret_is_token(const char *name, size_t len);

#endif
