/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_SHA1_H
#define VIAL_BASE_SHA1_H

/* SHA-1, which the handshake of WebSockets takes (RFC 6455, 4.2.2). It protects
 * nothing there, and is used for nothing else. */

#include <stddef.h>

void sha1(const void *data, size_t len, unsigned char out[20]);

#endif
