/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_FAIL_H
#define VIAL_BASE_FAIL_H

/*
 * Filling a struct vial_error. Each function returns -1, so that a failure is
 * one statement. ERR may be NULL. Messages: lower case, operation then object
 * in quotes, no "failed to".
 *
 *     return fail_sys(err, "open '%s'", path);
 *     return fail(err, VIAL_E_LIMIT, "timeout '%s' is not a duration", text);
 */

#include <stdbool.h>

#include "vial/error.h"

/* Codes are defined once, in codes.def: CODE(NAME, "VIAL-…", "meaning"). */
enum fail_code {
#define CODE(name, text, meaning) VIAL_E_##name,
#include "base/codes.def"
#undef CODE
    VIAL_E__COUNT
};

const char *fail_code_text(enum fail_code code);

__attribute__((format(printf, 3, 4))) int fail(struct vial_error *err,
                                               enum fail_code code, const char *format,
                                               ...);

/* From errno (kept in err->sys; its text becomes the cause). Code VIAL_E_SYSTEM. For
 * want of descriptors the remedy is set too, and stays. */
__attribute__((format(printf, 2, 3))) int fail_sys(struct vial_error *err,
                                                   const char *format, ...);

/* The same from a -errno value as the sys_* functions return. */
__attribute__((format(printf, 3, 4))) int fail_sys_rc(struct vial_error *err, int rc,
                                                      const char *format, ...);

/* Puts "context: " before an existing message. */
__attribute__((format(printf, 2, 3))) int fail_in(struct vial_error *err,
                                                  const char *format, ...);

/* Adds what the user can do, or what the system said. */
__attribute__((format(printf, 2, 3))) int fail_remedy(struct vial_error *err,
                                                      const char *format, ...);
__attribute__((format(printf, 2, 3))) int fail_cause(struct vial_error *err,
                                                     const char *format, ...);

bool fail_is(const struct vial_error *err, enum fail_code code);

/* Changes the code of an existing error. */
int fail_as(struct vial_error *err, enum fail_code code);

int fail_memory(struct vial_error *err);

void fail_clear(struct vial_error *err);

/* An analyzer sees one file at a time, and without this takes what comes after a
 * failure for something that may follow a success. */
#if defined(__clang_analyzer__) && !defined(VIAL_FAIL_ITSELF)
    #define fail(...)        ((void)fail(__VA_ARGS__), -1)
    #define fail_sys(...)    ((void)fail_sys(__VA_ARGS__), -1)
    #define fail_sys_rc(...) ((void)fail_sys_rc(__VA_ARGS__), -1)
    #define fail_in(...)     ((void)fail_in(__VA_ARGS__), -1)
    #define fail_remedy(...) ((void)fail_remedy(__VA_ARGS__), -1)
    #define fail_cause(...)  ((void)fail_cause(__VA_ARGS__), -1)
    #define fail_as(...)     ((void)fail_as(__VA_ARGS__), -1)
    #define fail_memory(...) ((void)fail_memory(__VA_ARGS__), -1)
#endif

#endif
