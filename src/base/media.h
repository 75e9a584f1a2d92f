/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_MEDIA_H
#define VIAL_BASE_MEDIA_H

/* "image/png" and so on, by a name's ending. Static storage. */
const char *media_of(const char *path);

#endif
