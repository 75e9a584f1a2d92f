/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_SIGNALS_H
#define VIAL_CLI_SIGNALS_H

/* A descriptor that becomes readable when we are told to stop; -errno. Signals that the
 * caller made us ignore (nohup, background jobs) stay ignored. */
int signals_open(void);

/* Which one came, or 0. */
int signals_seen(int fd);

#endif
