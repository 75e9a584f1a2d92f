/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_CONTROL_H
#define VIAL_E2B_CONTROL_H

/* The control API: control.c has its table of routes. */

#include "e2b/http_ask.h"

/* control_create.c */
void control_create(struct ask *a);

/* control_list.c */
void control_list(struct ask *a);

/* What answers say of a sandbox. NULL: no memory. */
json_t *control_sandbox(const struct ask *a, const struct box *box);
json_t *control_listed(const struct box *box);
json_t *control_detail(const struct ask *a, const struct box *box);

/* template.c: whether there is a template of that name ("name" or "name:default"), and
 * the image it stands for, or "". */
bool template_find(const struct settings *settings, const char *name,
                   const char **image);

#define CONTROL_USUAL_S 300 /* a lease that nobody asked for */

/* Milliseconds since 1970 as RFC 3339 has it. */
#define CONTROL_STAMP 32
void control_stamp(int64_t ms, char out[CONTROL_STAMP]);
int64_t control_now_ms(void);

/* SECONDS from VALUE, or what is wrong with it. */
int control_seconds(json_t *value, int64_t least, int64_t *out, struct vial_error *err);

#endif
