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
#include "model/custom_profile.h"
#include "model/limits.h"
#include "model/pod_settings.h"

#include "vial/error.h"

enum plan_network { NETWORK_NONE, NETWORK_BRIDGE, NETWORK_GATE };
enum plan_pull { PULL_MISSING, PULL_ALWAYS, PULL_NEVER };
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
    bool volume; /* SOURCE is a volume's name: its driver finds it, DEV and INO are 0 */
    uint64_t dev, ino;
    struct strv hidden; /* "/a/b" below it: sockets, which something is laid over */
};

#define MOUNT_HIDDEN_MAX 32

/* A port of the host that leads to one inside. */
struct plan_port {
    char *address;         /* of the host; never NULL */
    unsigned host, inside; /* HOST 0: the engine takes a free one */
    bool udp;
};

/* A volume that outlives the vessel. */
struct plan_cache {
    char *volume; /* its whole name */
    char *target;
};

/* What can be reached through a gate; empty without one. The last three are the
 * operator's alone. */
struct plan_gate {
    struct strv secrets;     /* lines (model/secret.h), without any value */
    struct strv allow, deny; /* rules (base/name_rule.h) */
    struct strv unchecked;   /* likewise: clients need not say the name */
    struct strv resolvers;   /* "ADDRESS:PORT"; empty: the host's */
    struct strv private_in;  /* "ADDRESS/BITS" */
};

/* The part of a plan that only container engines use. */
struct plan_container {
    char *network_name; /* NULL: the engine's own bridge */
    struct strv dns;    /* addresses; empty: the engine's choice */
    struct plan_port *ports;
    size_t port_count;
    struct plan_cache *caches;
    size_t cache_count;
    char *runtime;     /* NULL: the engine's default */
    unsigned uid, gid; /* who the program is; 0: as the driver sees fit */
    bool nproc;        /* RLIMIT_NPROC as limits.pids */
    char *prefix;      /* of names and labels; never NULL where an engine is used, and
                          elsewhere only if it is not the usual one */
    int64_t open_ms, retries, retry_ms;
    int64_t most;       /* containers of this prefix on the engine at once; 0: any */
    int64_t most_all;   /* and of all prefixes together */
    int64_t network_ms; /* how long the kernel tries to reach somebody; 0: its choice */
    enum plan_pull pull; /* the engine's business, not the driver's */
    int64_t pull_ms;
};

/* What the native driver makes a root of an image from, and what programs may do to it.
 * Empty: the host's system directories. */
struct plan_root {
    char *store; /* where the images are; NULL: an engine has them, or there is none */
    bool writable; /* the whole root, in a layer of the vessel's own */
    bool as_root;  /* programs are root inside */
    bool sudo;     /* or can become it */
};

/* A profile that no request can name: the native driver takes it where it is safe. */
#define PLAN_MACHINE_PROFILE "machine"

/* The only word of an argv that the image has: its CMD. */
#define PLAN_IMAGE_COMMAND "{image}"

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
    char *workdir;    /* one of plan_workdirs, or where the workspace lies */
    char *cwd;        /* absolute */
    bool cwd_open;    /* nobody says where it starts: an image may */
    bool entrypoint;  /* the image's begins argv */
    struct plan_file *files;
    size_t file_count;
    struct strv outputs; /* relative to workdir */
    char *artifacts; /* likewise, a directory; "" is the workdir; NULL: none wanted */
    struct blob stdin_data;
    bool stdin_live; /* the caller pipes it */
    struct limits limits;
    bool yields; /* of processor time, to all that is no vessel; a keeper's word */
    enum plan_network network;
    struct plan_gate gate;
    enum plan_keep keep;
    bool stream_limited; /* somebody asked for a limit of output, which then holds for
                            what is streamed as well */
    char *output_note;   /* where output was left out; NULL: the usual words */
    int64_t stop_ms;     /* of a session that is closed: from SIGTERM to SIGKILL */
    int64_t stay_ms;     /* how long its vessel may be there besides one run: for a
                            session's leases, or in a pool; 0: for a run alone */
    struct plan_mount *mounts;
    size_t mount_count;
    char *volume_store;           /* where its volumes are; NULL: it has none */
    char *image;                  /* NULL: the driver has none */
    struct plan_root root;        /* of an image, on this host */
    char *rootfs;                 /* NULL: built from the host's system directories */
    char *seccomp;                /* profile name, "default" */
    char *seccomp_file;           /* a profile before that one; NULL: none */
    struct custom_profile custom; /* what it says */
    bool count_denied;            /* calls that a filter refuses */
    bool fixed_addresses;         /* programs have no random layout of memory */
    char *hostname;               /* inside */
    struct strv require; /* "namespaces", "limits=cgroup", a layer's name … */
    struct strv end_on;  /* "pids", "disk": touching that limit ends the run */
    char *label_session, *label_task; /* NULL or short plain text */
    char *correlation; /* what the caller calls it, for every log; NULL or the same */
    struct plan_container container; /* empty where no engine is used */
    struct pod_settings pod;         /* of driver kubernetes alone */
};

const char *plan_network_name(enum plan_network network);

/* Where the vessel's own working directory is: workdir, unless a mount lies there. */
const char *plan_scratch(const struct plan *plan);

/* Whether its root is an image that this host has unpacked. */
bool plan_has_root(const struct plan *plan);

/* The vessel's own working directories, in the order of the field `workdir`; up to
 * NULL. */
extern const char *const plan_workdirs[];

/* Whether its programs may write to what outlives the vessel: a mount, or a cache. */
bool plan_writes_outside(const struct plan *plan);

/* Where the program's text is put, relative to the workdir; NULL: it goes as an
 * argument, or there is none. */
const char *plan_code_file(const struct plan *plan);

/* Appends TEXT with every "{dir}" as DIR. */
void plan_expand(struct strv *out, const char *text, const char *dir);
/* Appends the words that start the program, or its compiler (COMPILE), in a vessel
 * whose working directory is DIR. */
void plan_argv(const struct plan *plan, bool compile, const char *dir,
               struct strv *out);
/* How long that may take. */
int64_t plan_wall_ms(const struct plan *plan, bool compile);
/* How long all of it may take, one after the other. */
int64_t plan_most_ms(const struct plan *plan);

/* The program's file, where it has one, becomes number N: "main-2.py". For vessels that
 * several programs share. -1 without memory. */
int plan_rename_code(struct plan *plan, int n);

void plan_free(struct plan *plan); /* NULL is allowed */
AUTO(plan, struct plan, plan_free)
#define auto_plan __attribute__((cleanup(auto_plan_)))

/* ID, or nothing if NULL, is what the caller calls this run or session: the plan keeps
 * it, and programs find it as VIAL_REQUEST_ID unless the caller's own variables have
 * one. */
int plan_correlate(struct plan *plan, const char *id, struct vial_error *err);

/* For people and golden tests; code and stdin appear as sizes and hashes only.
 * NULL without memory. */
json_t *plan_json(const struct plan *plan);

#endif
