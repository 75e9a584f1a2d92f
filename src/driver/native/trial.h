/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_TRIAL_H
#define VIAL_DRIVER_NATIVE_TRIAL_H

/*
 * A trial finds out what this host lets a vessel have: a process that does nothing else
 * tries it. A lower tier is taken only after a trial has shown that there is no higher
 * one: a step that fails where the trial works is a fault, and no reason to go on
 * without. It costs half a vessel, and is not run where all goes well.
 */

#include <stdbool.h>

/* The layers that a vessel may have to do without. */
enum {
    LACKS_USR_OVERLAY = 1, /* of /usr and what lies beside it */
    LACKS_ETC_OVERLAY = 2, /* a container's /etc has mounts in it */
    LACKS_OWN_DEVICES = 4,
};

/* Namespaces need each of these. */
enum trial_need { NEED_USER, NEED_IDS, NEED_NETWORK, NEED_PROC, NEED_TMPFS };

struct trial {
    int namespaces; /* 0: they can be had; else the errno by which they are refused */
    enum trial_need need; /* then: what was refused, the first of all */
    unsigned lacks;       /* LACKS_*, where namespaces can be had */
    bool ran;             /* false: nothing is known, as it failed for another reason */
};

void trial_run(struct trial *out);

#endif
