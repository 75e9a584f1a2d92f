/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_PISTON_WORDS_H
#define VIAL_WIRES_PISTON_WORDS_H

/* Piston's runtimes, and its jobs as programs. */

#include "wires/turn.h"

/* A runtime that was asked for and can run here. */
struct piston_runtime {
    json_t *entry;    /* of runtimes/wires; borrowed */
    char version[32]; /* "3.11.2" */
    const char *name; /* canonical; borrowed */
};

/* The newest that is called NAME, or has it as an alias, and whose version lies in
 * RANGE. False: there is none. */
bool piston_find(struct call *c, const char *name, const char *range,
                 struct piston_runtime *out);
/* All that can run; TOLD makes what is told of one, which is taken. */
typedef json_t *piston_teller(const struct piston_runtime *r);
json_t *piston_list(struct call *c, piston_teller *told);

/* A job, as execute and a WebSocket's init have it, judged in Piston's order and made a
 * program, whose request is the caller's. -1: ERR has Piston's own words. */
int piston_job(struct call *c, json_t *body, struct piston_runtime *runtime,
               struct program *out, struct vial_error *err);

/* Exit code and signal of a stage; null where there is none. */
json_t *piston_code(const struct stage *s);
json_t *piston_signal(const struct stage *s);

#endif
