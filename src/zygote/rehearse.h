/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_REHEARSE_H
#define VIAL_ZYGOTE_REHEARSE_H

/*
 * The life of a child, in the zygote's own place, with a program of ours: it shows
 * whether this python does what we take it to do, and which memory a program needs.
 */

#include "zygote/memory.h"
#include "zygote/python.h"

#define PROGRAM "/work/main.py"

/* A program begins and ends as it should while PY uses SHORTCUTS. */
bool rehearse_holds(struct python *py, unsigned shortcuts);
/* The memory of a short one. PROC_FD is a /proc in which it exists. */
void rehearse_pages(struct python *py, struct pages *out, int proc_fd);

#endif
