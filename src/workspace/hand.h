/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_HAND_H
#define VIAL_WORKSPACE_HAND_H

/*
 * Writing into a layer with the rights of its programs, and no more: the calling
 * thread's file system ids become theirs (root loses its privileges over files with
 * that), and its own again when the hand is taken back. For an ordinary user they are
 * the same.
 */

#include <sys/fsuid.h>
#include <sys/types.h>
#include <unistd.h>

struct hand {
    uid_t uid;
    gid_t gid;
};

static inline struct hand hand_become(uid_t id)
{
    struct hand before = { geteuid(), getegid() };

    if (id != before.uid) {
        (void)setfsgid(id);
        (void)setfsuid(id);
    }
    return before;
}

static inline void hand_back(const struct hand *h)
{
    (void)setfsuid(h->uid);
    (void)setfsgid(h->gid);
}

#define auto_hand __attribute__((cleanup(hand_back)))

#endif
