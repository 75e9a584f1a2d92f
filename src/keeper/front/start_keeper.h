/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_FRONT_START_KEEPER_H
#define VIAL_KEEPER_FRONT_START_KEEPER_H

/*
 * The daemon is two programs. The front speaks with clients and has no privilege;
 * the keeper (`vial-keeper`) opens vessels for it and speaks with nobody else.
 * This is how one process becomes both. In main(), before the first thread:
 *
 *   settings_load -> sockets are bound, state directories made ->
 *   keeper_start -> keeper_drop -> keeper_seal -> vial_engine_open (with .kept)
 *
 * From keeper_start on, engines opened with `kept` have their vessels opened by the
 * keeper, over descriptors of fixed numbers (keeper/client/client.h). A keeper that
 * dies takes its vessels with it and is started anew; when the front dies, the keeper
 * ends every vessel and goes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "settings/settings.h"

#include "vial/error.h"

struct keeper_options {
    const struct settings *settings; /* its policy is what the keeper holds us to */
    const char *program;             /* of vial-keeper; NULL: in share_dir */
    unsigned vessels;                /* the most at once; 0: 1100 */
    bool first_only;                 /* the first of drivers.def, and no other */
    const char *const *imports; /* what zygotes may load; NULL-terminated, or NULL */
    const char *const *sockets; /* to remove when the front has gone; the same */
};

/* Makes the directories that vessels share, which the front could not any more, and
 * starts the keepers (drivers.def), with the present rights. */
int keeper_start(const struct keeper_options *options, struct vial_error *err);

/* Root becomes USER for good, with no group but its own and no capability at all.
 * Anyone else has nothing to give up: 0. */
int keeper_drop(const char *user, struct vial_error *err);

/* No new privileges, not dumpable; Landlock, where the kernel has it: nothing can be
 * written but below the directories in WRITABLE (NULL-terminated; those out of reach
 * count for nothing) and to files in /tmp and /var/tmp, and no process outside can be
 * traced or signalled; last, the filter `front` of system calls: no exec, no fork, no
 * socket but AF_UNIX ones. Later threads inherit it all. SHARE_DIR has the filter. */
int keeper_seal(const char *share_dir, const char *const *writable,
                struct vial_error *err);

/* All is over: waits until the keepers have ended every vessel, removed the sockets and
 * gone; but not for ever. */
void keeper_stop(void);

/* A socket that hangs up once the keeper is gone for good, and nobody starts another:
 * then the front has no reason to stay. Borrowed. */
int keeper_leash(void);

/* For health pages: whether the first keeper answers, and how it fares. */
struct keeper_health {
    pid_t pid;
    unsigned vessels;  /* open or being opened now */
    unsigned restarts; /* how often one had to be started anew */
};
/* VIAL_E_KEEPER when it does not answer. */
int keeper_health(struct keeper_health *out, struct vial_error *err);

#endif
