/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_ENVIRON_H
#define VIAL_ZYGOTE_ENVIRON_H

/* Lets /proc/self/environ end before the string at END, where the kernel allows it:
 * a started interpreter's would not show how this one was started. */
void environ_cut(const char *end);

#endif
