/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_RESULT_H
#define VIAL_RESULT_H

/*
 * A result tells what happened. Every run ends in one result, refusals and faults
 * included; vial_result_free gives it back. Members are read-only for callers, and new
 * ones are only ever added at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vial/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a run ended. Closed set; the names are vial_verdict_name's. */
enum vial_verdict {
    VIAL_OK,           /* exit code 0 */
    VIAL_NONZERO,      /* exit code other than 0 */
    VIAL_SIGNAL,       /* killed by a signal that vial did not send */
    VIAL_TIMEOUT,      /* the wall-clock deadline fired */
    VIAL_CPU_TIMEOUT,  /* the cpu-time limit fired */
    VIAL_OOM,          /* killed for its memory limit, by the kernel or by vial */
    VIAL_DISK,         /* ended by vial because the disk limit was touched */
    VIAL_PIDS,         /* ended by vial because the pids limit was touched */
    VIAL_OUTPUT_LIMIT, /* ended by vial because it printed more than output_max */
    VIAL_DENIED,       /* refused before anything started: see error */
    VIAL_CANCELLED,    /* ended because the caller asked for it */
    VIAL_FAILED        /* vial or the vessel failed; never the program's fault */
};

/* Limits touched during the run, whether or not they ended it: a bit set. */
enum vial_limit {
    VIAL_LIMIT_MEMORY = 1u << 0,
    VIAL_LIMIT_PIDS = 1u << 1,
    VIAL_LIMIT_CPU = 1u << 2,
    VIAL_LIMIT_DISK = 1u << 3,
    VIAL_LIMIT_FSIZE = 1u << 4,
    VIAL_LIMIT_OUTPUT = 1u << 5,
    VIAL_LIMIT_TIME = 1u << 6,
    VIAL_LIMIT_NETWORK = 1u << 7
};

/* One captured stream. DATA holds LEN bytes exactly as the program wrote them
 * (plus a NUL that is not counted), with a notice in the middle or at an edge
 * when TRUNCATED; TOTAL_BYTES counts all that was written. */
struct vial_stream {
    char *data;
    size_t len;
    uint64_t total_bytes;
    bool truncated;
};

struct vial_timing {
    double queue_ms, open_ms, run_ms, close_ms;
};

struct vial_usage {
    double cpu_user_ms, cpu_system_ms;
    uint64_t memory_peak_bytes;
    uint64_t pids_peak;
    double throttled_ms;
    uint64_t read_bytes, write_bytes;
    uint64_t net_rx_bytes, net_tx_bytes;
    uint64_t disk_peak_bytes;
};

/* A file asked for with the request's `outputs`. */
struct vial_file {
    char *path; /* as asked for */
    char *data; /* NULL when it could not be had: see error */
    size_t len;
    struct vial_error error; /* code "" when DATA is there */
};

/* A new or changed file below the request's `artifacts`. */
struct vial_artifact {
    char *path;        /* below that directory */
    const char *media; /* "image/png" …, by the name's ending; static storage */
    uint64_t size;
    char sha256[65]; /* of its content, in hex; "" when it was too much to read */
    char *data;      /* SIZE bytes of an image that is not too large, or NULL */
};

/* A system call that the seccomp profile refused, as the vessel says. */
struct vial_denied {
    char call[32];
    uint64_t count;
};

/* A connection through a gate, or several refusals of the same one. */
struct vial_connection {
    char name[256];
    unsigned port;                /* 0: the name was looked up, and is not allowed */
    char verdict[24];             /* "ok", "denied", "private_address" … */
    bool incoming;                /* to a port of the vessel */
    uint64_t bytes_in, bytes_out; /* to the vessel, and from it */
    uint64_t times;               /* 1, or how often it was refused */
    double ms;                    /* from the try to the end */
};

/* What was reached through a gate. */
struct vial_network {
    struct vial_connection *connections; /* COUNT of them */
    size_t count;
    uint64_t left_out;            /* connections that are not among them */
    uint64_t made, refused;       /* all, those left out included */
    uint64_t bytes_in, bytes_out; /* likewise */
    bool whole;                   /* false: the gate did not say */
    bool limited;                 /* a limit of it was reached: see limits_hit */
    uint64_t over_quota; /* of those refused: by the caller's quota, in a daemon */
};

struct vial_result {
    char id[24];          /* "r-…" */
    char correlation[72]; /* what the caller called it in struct vial_watch, or "" */
    enum vial_verdict verdict;
    int exit_code;     /* -1 when there is none */
    int signal;        /* 0 when there is none */
    const char *stage; /* "compile" or "run": which step the verdict is about */
    struct vial_stream out, err;
    double duration_ms;
    struct vial_timing timing;
    struct vial_usage usage;
    unsigned limits_hit; /* enum vial_limit */
    char driver[16];
    char vessel_id[32]; /* "v-…", or "" when none was opened */
    char *image;        /* NULL when the driver has none */
    char
        image_digest[72]; /* of the image that was its root, without an engine; or "" */
    char image_owners[8]; /* whose the image's files were inside: "image", "one" (all of
                             one user), "nobody"; or "" */
    char level[16];       /* "none", "remote", "landlock", "namespaces", "container" */
    char **layers;        /* NULL-terminated */
    char limits_by[16];   /* "cgroup2", "cgroup1", "cgroup" of an engine elsewhere,
                             "rlimit", "none" */
    struct vial_file *files; /* FILE_COUNT of them */
    size_t file_count;
    struct vial_error error; /* code "" when there is none */
    char start[8]; /* "cold", "warm" when a vessel waited, or "" when none was opened */
    char preset_code[32];   /* the preset's own code for this end, or "" */
    char wanted_driver[16]; /* the preset's driver, when another took its place */
    struct vial_artifact *artifacts; /* ARTIFACT_COUNT of them, sorted by path */
    size_t artifact_count;
    bool artifacts_truncated; /* there were more, or some could not be read whole */
    char container_id[80];    /* the engine's own id of the container, or "" */
    char name[160]; /* what it was called, by its labels or its engine, or "" */
    uint64_t network_refused; /* how often the program tried a network where it has
                                 none, as the vessel says */
    unsigned renewed; /* of vial_keep_run: so many processes of earlier calls were left
                         in the vessel that it was made anew for this one; else 0 */
    bool denials_counted;       /* refused system calls were counted */
    struct vial_denied *denied; /* DENIED_COUNT of them */
    size_t denied_count;
    struct vial_network *network; /* NULL: it had no gate */
};

/* "ok", "cpu_timeout" and so on. Static storage. */
VIAL_API const char *vial_verdict_name(enum vial_verdict verdict);

/* Signal name without "SIG" ("KILL"), or NULL. Static storage. */
VIAL_API const char *vial_signal_name(int signal);

/* The result as one JSON object (schema: vial_schema("result")). Text is
 * repaired to valid UTF-8; a stream that needed repair, or every stream with
 * RAW, also comes as base64. malloc'ed; NULL when out of memory. */
VIAL_API char *vial_result_json(const struct vial_result *result, bool raw);

/* NULL is allowed. */
VIAL_API void vial_result_free(struct vial_result *result);

#ifdef __cplusplus
}
#endif
#endif
