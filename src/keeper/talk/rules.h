/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_TALK_RULES_H
#define VIAL_KEEPER_TALK_RULES_H

/*
 * Rules to which the keeper holds the front. The launcher, which is trusted, writes
 * them before any client is heard; nothing changes them afterwards.
 */

#include "settings/settings.h"
#include "wire/pack.h"

/* As serve.log has them. */
enum rules_log { RULES_LOG_LOGFMT, RULES_LOG_JSON, RULES_LOG_NONE };

/* A socket that clients connect to, as it was made: another one of that name is
 * another daemon's. */
struct rules_socket {
    char *path;
    uint64_t dev, ino, changed_ns;
};

struct rules {
    struct settings
        settings;        /* of these: policy, share_dir, home, numbers of volumes */
    char *store;         /* the operator's, of images; or NULL */
    char *volumes;       /* the same of volumes */
    uint32_t vessels;    /* the most at once */
    uint32_t log;        /* the form of log lines */
    struct strv imports; /* modules that zygotes may load */
    struct rules_socket *sockets; /* to be removed when the front has gone */
    size_t socket_count;
};

/* IMPORTS and SOCKETS (paths): NULL-terminated, or NULL. */
void rules_pack(struct pack *p, const struct settings *settings, uint32_t vessels,
                const char *const *imports, const char *const *sockets);
int rules_unpack(struct unpack *u, struct rules *out); /* 0 or -1 */
void rules_done(struct rules *r);

/* Removes those sockets that are still what they were. */
void rules_remove_sockets(const struct rules *r);

#endif
