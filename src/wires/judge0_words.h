/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_JUDGE0_WORDS_H
#define VIAL_WIRES_JUDGE0_WORDS_H

/* Judge0's submissions: how their members are judged, and what they become. */

#include "wires/additional_files.h"

enum judge0_status {
    JUDGE0_QUEUED = 1,
    JUDGE0_RUNNING = 2,
    JUDGE0_ACCEPTED = 3,
    JUDGE0_WRONG = 4,
    JUDGE0_NO_COMPILE = 6,
    JUDGE0_SEGV = 7,
    JUDGE0_XFSZ = 8,
    JUDGE0_FPE = 9,
    JUDGE0_ABRT = 10,
    JUDGE0_NONZERO = 11,
    JUDGE0_INTERNAL = 13,
    JUDGE0_STATUSES = 14
};
const char *judge0_status_name(int status); /* 1 … JUDGE0_STATUSES */

enum judge0_limit {
    JUDGE0_CPU,
    JUDGE0_CPU_EXTRA,
    JUDGE0_WALL,
    JUDGE0_MEMORY,
    JUDGE0_STACK,
    JUDGE0_PROCESSES,
    JUDGE0_FILE_SIZE,
    JUDGE0_RUNS,
    JUDGE0_LIMITS
};

struct judge0_bound {
    const char *name;
    double usual, least, most;
    bool seconds; /* told as text, with a fraction */
};
extern const struct judge0_bound judge0_bounds[JUDGE0_LIMITS];
/* The most that C may ask for, by the policy as well. */
double judge0_most(const struct call *c, enum judge0_limit id);

/* What was asked for, judged. */
struct judge0_asked {
    json_t *entry; /* of its language; borrowed */
    int64_t language_id;
    struct blob source, stdin_data, expected, archive;
    bool has_stdin, has_expected, has_archive;
    bool many_files; /* no code of its own: the archive has it */
    double limits[JUDGE0_LIMITS];
    bool own_stack, merged;
    char *options, *arguments; /* or NULL */
    char *callback_url;        /* where its end is told, or NULL */
};

/* Reads GIVEN, a submission. -1: *WRONG is an object of members and what is wrong with
 * them. */
int judge0_read(struct call *c, json_t *given, bool base64, struct judge0_asked *out,
                json_t **wrong);
void judge0_asked_done(struct judge0_asked *a);

/* The entry of a language's number; NULL: it is not known, or cannot run here. */
json_t *judge0_language(struct call *c, int64_t id, struct str *name);

/* The program that it asks for, for OUT->call; FILES is what its archive had. */
int judge0_program(const struct judge0_asked *a, const struct additional_files *files,
                   struct program *out, struct vial_error *err);

/* How it ended. */
int judge0_judge(const struct judge0_asked *a, const struct outcome *o);

#endif
