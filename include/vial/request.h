/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_REQUEST_H
#define VIAL_REQUEST_H

/*
 * A request is what a caller asks: a bag of named fields (vial_schema("request") lists
 * them); what is not set comes from the settings. A request may be run any number of
 * times, by one thread at a time.
 */

#include <stddef.h>

#include "vial/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_request;

/* A request in which nothing is set. */
VIAL_API VIAL_MUST_CHECK int vial_request_new(struct vial_request **out,
                                              struct vial_error *err);

/* Reads LEN bytes of JSON. Unknown fields, duplicate keys, wrong types and
 * values out of range are errors. */
VIAL_API VIAL_MUST_CHECK int vial_request_parse(const char *json, size_t len,
                                                struct vial_request **out,
                                                struct vial_error *err);

/* Sets FIELD from text, in the form the command line uses ("5s", "256m",
 * "KEY=VALUE" …). Fields that hold several values gather them. */
VIAL_API VIAL_MUST_CHECK int vial_request_set(struct vial_request *req,
                                              const char *field, const char *value,
                                              struct vial_error *err);

/* The same for LEN bytes that may hold NUL (code and stdin). */
VIAL_API VIAL_MUST_CHECK int vial_request_set_bytes(struct vial_request *req,
                                                    const char *field, const void *data,
                                                    size_t len, struct vial_error *err);

/* NULL is allowed. */
VIAL_API void vial_request_free(struct vial_request *req);

#ifdef __cplusplus
}
#endif
#endif
