/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_JUDGE0_INFO_H
#define VIAL_WIRES_JUDGE0_INFO_H

/* What Judge0 tells of itself: handlers of its routes. */

#include "serve/http_call.h"

void judge0_languages(struct call *c);
void judge0_one_language(struct call *c);
void judge0_statuses(struct call *c);
void judge0_about(struct call *c);
void judge0_version(struct call *c);
void judge0_isolate(struct call *c);
void judge0_license(struct call *c);
void judge0_config(struct call *c);
void judge0_workers(struct call *c);
/* What tells of others, and of the host: nothing of that. */
void judge0_nothing(struct call *c);

#endif
