/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_ROOT_KEEPER_LOG_H
#define VIAL_KEEPER_ROOT_KEEPER_LOG_H

/*
 * A keeper tells of its work: one line a vessel, on standard error, in the form of the
 * daemon's own lines and with the same ids. A vessel of the pool is opened before there
 * is a request; the front's line on the run names it.
 */

#include "driver/driver.h"
#include "keeper/talk/rules.h"

/* V has been closed; it took so long to open, and lived for so long. */
void journal_vessel(const struct rules *rules, const struct plan *plan,
                    const char *vessel_id, double open_ms, double lived_ms);

/* There was none. PLAN may be NULL: it was not understood. */
void journal_refusal(const struct rules *rules, const struct plan *plan,
                     const struct vial_error *err);

#endif
