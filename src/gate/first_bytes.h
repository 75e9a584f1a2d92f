/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_GATE_FIRST_BYTES_H
#define VIAL_GATE_FIRST_BYTES_H

/* What a client says first: which name it means, and what it offers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum first_verdict { FIRST_MORE, FIRST_GOOD, FIRST_OTHER_NAME, FIRST_NO_NAME };
/* Judges the first LEN bytes of a client that asked for NAME at PORT; ENDED: no more
 * will come. */
enum first_verdict first_bytes_judge(const uint8_t *data, size_t len, bool ended,
                                     const char *name, uint16_t port);
bool first_bytes_wait(uint16_t port); /* its clients speak first */
enum first_offer { OFFER_MORE, OFFER_NO, OFFER_YES };
/* Whether the ClientHello that DATA begins with offers PROTOCOL (ALPN). */
enum first_offer first_bytes_offer(const uint8_t *data, size_t len,
                                   const char *protocol);

#endif
