/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_HOLES_H
#define VIAL_ZYGOTE_HOLES_H

/*
 * The free room between what a zygote holds. A child that took its memory there would
 * copy a page, or two, for nearly each piece. So the zygote takes all of it, for ever,
 * and what a child asks for lies together, at the end.
 */

/* When the zygote has all it will have. */
void holes_fill(void);

#endif
