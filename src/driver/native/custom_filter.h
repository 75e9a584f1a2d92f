/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_CUSTOM_FILTER_H
#define VIAL_DRIVER_NATIVE_CUSTOM_FILTER_H

/*
 * A seccomp profile of the administrator's own, as Docker and the OCI write it (JSON).
 * It is compiled to one BPF program, which is put before the vessel's own filter: what
 * it lets through, the vessel's own filter judges. So it can only take away.
 *
 *   custom_load (once, where settings are read) -> custom_check -> custom_put
 */

#include "base/str.h"
#include "model/language.h"

#include "vial/error.h"

/* Reads and compiles the profile of each language that names one. A file that is
 * missing, not the administrator's, broken, or says what is not supported: an error
 * that names it. */
int custom_load(struct language_table *t, struct vial_error *err);

/* custom_filter.c's text in, a filter out. PATH is for messages. */
int custom_compile(const struct blob *text, const char *path, struct blob *filter,
                   size_t *rules, struct vial_error *err);

/* The name of a system call; NULL: it has none. malloc'ed. */
char *custom_call_name(uint32_t number);

/* seccomp.c: whether FILTER is a program that custom_put can take: whoever made it,
 * what stands behind it stays in force. */
bool custom_check(const struct blob *filter);

/* seccomp.c: puts FILTER, which custom_check has seen, before OWN. */
int custom_put(struct blob *own, const struct blob *filter, struct vial_error *err);

/* seccomp.c: what FILTER says of system call NUMBER with no bit set in its arguments.
 */
uint32_t custom_verdict(const struct blob *filter, int number);

#endif
