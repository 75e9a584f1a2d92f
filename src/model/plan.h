/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_PLAN_H
#define VIAL_MODEL_PLAN_H

/*
 * Request x policy, resolved and immutable: the only thing a driver sees. There
 * is no member for "privileged", the host's network or pid namespace, or an
 * engine's control socket, so no input can ask for them.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/auto.h"
#include "base/str.h"
#include "model/limits.h"

enum plan_network { NETWORK_NONE, NETWORK_BRIDGE };
enum plan_keep { KEEP_HEAD, KEEP_TAIL, KEEP_BOTH };

/* A file that exists before the program starts, relative to the workdir. */
struct plan_file {
    char *path;
    struct blob content;
    unsigned mode; /* 0644, 0755 … */
};

/* A host directory or file inside the vessel. SOURCE is absolute and free of
 * symbolic links; DEV and INO say which object was judged, and a driver mounts
 * that object or nothing. */
struct plan_mount {
    char *source, *target;
    bool writable;
    bool overlay; /* what is written goes to a layer above it, not to the host */
    bool is_dir;
    uint64_t dev, ino;
};

struct plan {
    char id[24];              /* "r-…" */
    char *driver;             /* a driver's name; never "auto" */
    char *language;           /* NULL for a plain command */
    struct strv compile_argv; /* empty: no compile step */
    struct strv argv; /* argv[0] is looked up along PATH unless it has a slash */
    struct strv env;  /* "K=V", complete: nothing is inherited */
    /* "{dir}" stands for the workdir in all of compile_argv, and in the first
     * ARGV_OWN and ENV_OWN entries, which vial made. The others are the
     * caller's and mean what they say. */
    size_t argv_own, env_own;
    struct blob code; /* stands for the word "{code}" of argv; empty: a file has it */
    char *workdir;    /* "/work", or "/workspace" */
    char *cwd;        /* absolute */
    struct plan_file *files;
    size_t file_count;
    struct strv outputs; /* relative to workdir */
    char *artifacts; /* likewise, a directory; "" is the workdir; NULL: none wanted */
    struct blob stdin_data;
    bool stdin_live; /* the caller pipes it */
    struct limits limits;
    enum plan_network network;
    enum plan_keep keep;
    struct plan_mount *mounts;
    size_t mount_count;
    char *image;         /* NULL: the driver has none */
    char *rootfs;        /* NULL: built from the host's system directories */
    char *seccomp;       /* profile name, "default" */
    char *hostname;      /* inside */
    struct strv require; /* "namespaces", "limits=cgroup", a layer's name … */
    struct strv end_on;  /* "pids", "disk": touching that limit ends the run */
    char *label_session, *label_task; /* NULL or short plain text */
};

void plan_free(struct plan *plan); /* NULL is allowed */
AUTO(plan, struct plan, plan_free)
#define auto_plan __attribute__((cleanup(auto_plan_)))

/* For people and golden tests; code and stdin appear as sizes and hashes only.
 * NULL without memory. */
json_t *plan_json(const struct plan *plan);

#endif
