/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_CONNECT_ENVELOPE_H
#define VIAL_HTTP_CONNECT_ENVELOPE_H

/*
 * The envelope in which Connect puts each message of a stream: flags, and the message's
 * length, before it. Both sides of E2B's envd speak it. Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define ENVD_PORT 49983u /* of a sandbox, where its envd is */

#define CONNECT_HEAD   5u /* bytes before a message */
#define CONNECT_PACKED 1u /* flags: the message is compressed */
#define CONNECT_LAST   2u /* it is the stream's last */

struct connect_head {
    unsigned flags;
    size_t len; /* of the message; whatever the other side says, up to 4 GiB */
};

/* DATA has CONNECT_HEAD bytes. */
struct connect_head connect_head_read(const void *data);

/* Adds the whole envelope to OUT, which has failed if MESSAGE is too long for one. */
void connect_put(struct str *out, unsigned flags, const void *message, size_t len);

#endif
