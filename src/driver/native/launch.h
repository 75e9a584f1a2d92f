/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_LAUNCH_H
#define VIAL_DRIVER_NATIVE_LAUNCH_H

/*
 * From a script to a running guest.
 *
 *   launch_prepare -> (the script begins) -> launch_begin: the child walks up to
 *   its first OP_WAIT, making its network namespace -> launch_copy, (the script is
 *   completed) -> launch_settle: it walks on -> launch_finish: it has exec'ed
 *
 * Between begin and settle, and settle and finish, the parent is free for other
 * preparation, which then costs no time where there is a second core.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/subids.h"
#include "driver/native/script.h"
#include "model/plan.h"

#include "vial/error.h"

/* The child's first values. */
struct launch_walk {
    const struct script *script;
    int control_fd;
};

struct image_layers;
struct held_volumes;

struct launch {
    int control[2]; /* ours, the child's */
    int stream[2];  /* ours, the guest's */
    int exec_fd;    /* the guest, sealed */
    bool sealed;    /* it came so, and needs no copy */
    int pidfd;
    pid_t pid; /* 0: not begun */
    struct launch_walk walk;
    bool privileged;
    unsigned uid, gid; /* of its programs, inside */
    uid_t first_id;    /* of a range of ids that root took for it; 0: none */
    bool ranged;       /* its ids are SUBIDS, an ordinary user's own */
    struct subids subids;
    struct image_layers *image;         /* of its root, or NULL; borrowed */
    const struct held_volumes *volumes; /* borrowed */
    unsigned lacks;    /* LACKS_*: a trial has shown that this host has it not */
    struct host *host; /* what its root is made of; owned */
    bool own_devices;  /* the vessel's device nodes are inodes of its own */
    bool doubtful;     /* it failed for what some hosts never have: a trial tells */
    char *authority;   /* that its programs trust besides the host's: PEM; or NULL */
    char *bundle;      /* the host's certificates, and that; or NULL */
    int layer_fd[2];   /* what OP_GIVE gave: an overlay's layers, and what it shows */
    int upper_fd;      /* the same of a root that is writable: what was written to it */
};

#define LAUNCH_NONE                                                                    \
    {                                                                                  \
        .control = { -1, -1 }, .stream = { -1, -1 }, .exec_fd = -1, .pidfd = -1,       \
        .layer_fd = { -1, -1 }, .upper_fd = -1,                                        \
    }

/* Whether it has users beside the one who makes it. */
static inline bool launch_has_users(const struct launch *l)
{
    return l->privileged || l->ranged;
}

/* A copy of the guest program that nobody can write, for many launches; or -1. */
int launch_seal(int guest_fd);
int launch_prepare(struct launch *l, int guest_fd, struct vial_error *err);
/* SPACES: CLONE_NEW* flags. INTO_FD: a v2 cgroup to be born in, or -1. */
int launch_begin(struct launch *l, struct script *s, uint64_t spaces, int into_fd,
                 struct vial_error *err);
/* Fills what the child will execute. */
int launch_copy(const struct launch *l, int guest_fd, struct vial_error *err);
/* Maps its ids and makes its mounts; then the child's first OP_WAIT ends. */
int launch_settle(struct launch *l, const struct script *s, const struct plan *plan,
                  struct vial_error *err);
/* The child's next OP_WAIT ends, with COUNT descriptors for it. */
int launch_send(const struct launch *l, const int *fds, size_t count,
                struct vial_error *err);
int launch_finish(struct launch *l, const struct script *s, struct vial_error *err);
/* The host's id of programs that are ID inside. */
uid_t launch_id(const struct launch *l, uid_t id);
/* Closes what was not taken, and ends the child if there is one. */
void launch_done(struct launch *l);
#define auto_launch __attribute__((cleanup(launch_done)))

#endif
