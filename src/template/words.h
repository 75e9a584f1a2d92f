/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TEMPLATE_WORDS_H
#define VIAL_TEMPLATE_WORDS_H

/*
 * An instruction's arguments: words with quotes, escapes and variables, as a Dockerfile
 * has them: '…', "…", \c, $NAME, ${NAME}, ${NAME:-other}, ${NAME:+other}.
 */

#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

/* The value of NAME (LEN bytes) among "NAME=VALUE"; NULL: it is not there. */
const char *words_lookup(const struct strv *variables, const char *name, size_t len);

/* Whether LEN bytes of TEXT can be a variable's name. */
bool words_is_name(const char *text, size_t len);

/* Appends each word of TEXT. VARIABLES may be NULL: all are empty then. */
int words_split(const char *text, const struct strv *variables, struct strv *out,
                struct vial_error *err);

/* The whole of TEXT as one word; malloc'ed, NULL with ERR filled. */
char *words_expand(const char *text, const struct strv *variables,
                   struct vial_error *err);

/* Appends TEXT so that words_split gives it back as it is. */
void words_quote(struct str *out, const char *text);

#endif
