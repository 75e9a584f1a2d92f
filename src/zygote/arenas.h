/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_ARENAS_H
#define VIAL_ZYGOTE_ARENAS_H

/*
 * The memory of python's objects while a zygote starts and imports: one piece, which
 * pages_join can make large pages of, instead of many between libraries. A child gets
 * more as any python does.
 *
 *   arenas_gather (before python) -> arenas_settle (before the first fork)
 */

void arenas_gather(void);
void arenas_settle(void);

#endif
