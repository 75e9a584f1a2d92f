/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_PROTOBUF_H
#define VIAL_E2B_PROTOBUF_H

/*
 * The messages of E2B's two services in protobuf, for clients that do not speak JSON.
 * Handlers know the JSON form alone; what comes is made into that, and what goes out
 * from it. protobuf.c has the messages as tables.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct proto_message;

/* What PATH ("/process.Process/Start") takes and gives. False: there is no such call.
 */
bool proto_method(const char *path, const struct proto_message **takes,
                  const struct proto_message **gives);

/* An object, or NULL: the LEN bytes at DATA are no such message, hold more than 8192
 * elements of lists, or there is no memory. */
json_t *proto_read(const struct proto_message *m, const void *data, size_t len);

/* Adds VALUE as M to OUT; members that M does not know are left out. */
void proto_write(const struct proto_message *m, const json_t *value, struct str *out);

#endif
