/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_WEB_PAGE_H
#define VIAL_SERVE_WEB_PAGE_H

/* The files of web/, which lie in the program itself: a front that can see no more of
 * the file system serves them all the same. */

#include <stddef.h>

struct page_file {
    const char *name, *type;
    const unsigned char *data;
    size_t len;
};

extern const struct page_file page_files[]; /* up to one without a name */

#endif
