/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ERROR_H
#define VIAL_ERROR_H

/*
 * Why a call did not do what it was asked to. The caller owns the struct,
 * usually on its stack; it owns nothing itself, so that reporting an error can
 * neither fail nor leak. It is written only when a call returns -1.
 */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
    #define VIAL_API        __attribute__((visibility("default")))
    #define VIAL_MUST_CHECK __attribute__((warn_unused_result))
#else
    #define VIAL_API
    #define VIAL_MUST_CHECK
#endif

struct vial_error {
    char code[32];     /* "VIAL-…"; every code is described in docs/errors.md */
    char message[384]; /* lower case: the operation, then the object in quotes */
    char cause[192];   /* what the system said, or "" */
    char remedy[256];  /* what the user can do now, or "" */
    int sys;           /* errno behind it, or 0 */
};

/* The documented table of codes: entry INDEX, or NULL past the end.
 * *MEANING is set to one sentence about it. Static storage. */
VIAL_API const char *vial_error_code(unsigned index, const char **meaning);

#ifdef __cplusplus
}
#endif
#endif
