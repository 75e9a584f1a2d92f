/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_ROOT_KEEPER_H
#define VIAL_KEEPER_ROOT_KEEPER_H

/*
 * The privileged half of the daemon: it opens vessels for a front that may have been
 * taken over, removes what dead owners left, and does nothing else. vial-keeper has no
 * thread, no JSON, no HTTP, no YAML; vial-keeper-docker speaks HTTP and JSON, with the
 * container engine.
 *
 *   restart         starts the keeper, which gives up what it does not need, and
 * another one if it dies keeper          hears the front's questions; one process per
 * vessel answers them warden          that process: opens its vessel, kills, counts and
 * closes it check           judges a plan against the rules (talk/rules.h) zygotes
 * those that wardens hold and lend each other keeper_native   what vial-keeper has: its
 * driver, its rights, no JSON keeper_docker   the same of vial-keeper-docker, and
 * images
 *
 * A warden ends its vessel when the front lets go of the vessel's leash; the keeper
 * ends its wardens when the front is gone; the kernel ends all of them, and with them
 * the guests, when the keeper or its starter is killed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "driver/driver.h"
#include "keeper/talk/rules.h"
#include "keeper/talk/talk.h"

/* The one whose vessels this program opens: keeper_native.c or keeper_docker.c. */
extern const struct driver *const keeper_driver;
/* The capabilities that it takes from root of the host: 1 << CAP_* each. */
extern const uint64_t keeper_caps;

/* A zygote: in the hands of a warden, and lent to those started after it. */
struct lent_zygote {
    pid_t warden; /* 0: free */
    uint32_t number;
    int report_fd; /* what the warden lends comes by this */
    int fds[2];    /* that, or -1 */
};

/* As many as two pools have, while settings are read anew. */
#define KEEPER_ZYGOTES 32

struct keeper {
    struct rules rules;
    int front_fd;
    int guest_fd;
    struct native_shared *shared; /* what is made once for all vessels, or NULL */
    int signal_fd;                /* tells of ended wardens */
    uint32_t restarts;
    pid_t *wardens; /* rules.vessels entries, and TALK_VOLUME_PLACES; 0: free */
    uint32_t vessels, volume_wardens;
    struct lent_zygote zygotes[KEEPER_ZYGOTES];
    uint32_t next_zygote;
    int64_t tokens; /* questions that may be answered now, in thousandths */
    int64_t filled_ns;
};

/* Until the front is gone: 0, or -1 when it cannot be served. All wardens have
 * ended. */
int keeper_serve(struct keeper *k, struct vial_error *err);

/* The life of a warden. REQUEST is what came behind VERB. */
struct warden {
    const struct keeper *keeper;
    int leash_fd;
    uint32_t verb;
    struct unpack request;
    int report_fd;   /* a zygote's: see struct lent_zygote; else -1 */
    uint32_t number; /* a zygote's */
};
_Noreturn void warden_run(struct warden *w);
/* Tells it to the front; takes P. */
void warden_answer(const struct warden *w, struct pack *p, const int *fds,
                   size_t count);
/* Tells the front that it cannot be. */
void warden_refuse(const struct warden *w, const struct vial_error *err);

/* Does in a warden what this program does besides vessels: images. NULL: nothing. */
typedef void keeper_task(struct warden *w, struct vial_error *err);
extern keeper_task *const keeper_images;

/* volume_verbs.c: does what W's verb asks of volumes; false: it asks nothing of them.
 */
bool volumes_serve(struct warden *w, struct vial_error *err);

/* zygotes.c */
void zygotes_init(struct keeper *k);
/* A place for a zygote, with both ends of its report; NULL: there is none. */
struct lent_zygote *zygotes_add(struct keeper *k, int *theirs);
void zygotes_hear(struct keeper *k);               /* what wardens lend, never waits */
void zygotes_drop(struct keeper *k, pid_t warden); /* that warden is gone */
const struct lent_zygote *zygotes_find(const struct keeper *k,
                                       uint32_t number); /* lent, or NULL */

#endif
