/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_CODE_H
#define VIAL_ZYGOTE_CODE_H

/*
 * The code, and the tables, that each child reads. What is mapped from a file is not
 * copied by a fork: each child would find it anew, piece by piece. So the zygote puts
 * its own memory in that place, with the same bytes and the same protection; that is
 * copied, and quickly, since it lies in few large pages. So do python's variables and
 * the heap, if no other thread could write to them meanwhile.
 */

#include "zygote/pages.h"

/* In the zygote. What was moved is no more in P; where none can be, nothing is. */
void code_gather(struct pages *p, int proc_fd);

#endif
