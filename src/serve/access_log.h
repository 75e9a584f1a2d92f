/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_ACCESS_LOG_H
#define VIAL_SERVE_ACCESS_LOG_H

/* One line per event on standard error, each written at once: logfmt or JSON. What a
 * client chose to send is neutralised. */

#include <jansson.h>

struct log {
    enum { LOG_LOGFMT, LOG_JSON, LOG_NONE } form;
};

/* Takes FIELDS, an object of plain values; NULL: none. LEVEL: "info", "warn". */
void log_line(const struct log *log, const char *level, const char *event,
              json_t *fields);

#endif
