/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_WIRE_FILES_H
#define VIAL_WIRES_WIRE_FILES_H

/* Files that go-judge's clients leave with the daemon, to be used by later programs:
 * compiled programs, mostly. Each caller sees its own, by ids that nobody can guess. */

#include <jansson.h>
#include <pthread.h>

#include "serve/http_call.h"

struct wire_file {
    char id[24];
    char owner[96];
    char *name;
    struct blob content;
    int64_t used_ns;
    struct wire_file *next;
};

struct wire_files {
    pthread_mutex_t lock;
    struct wire_file *first;
};

int wire_files_init(struct wire_files *f);
void wire_files_done(struct wire_files *f);

/* Keeps a copy; -1: its caller has no room left. ID has 24 bytes. */
int wire_files_add(struct call *c, const char *name, const char *data, size_t len,
                   char *id);
/* How long C's file is; 0 if there is none. */
size_t wire_files_len(struct call *c, const char *id);
/* A copy of C's file, and its name (malloc'ed, or NULL if NAME is); -1: there is none.
 */
int wire_files_get(struct call *c, const char *id, struct blob *out, char **name);
bool wire_files_remove(struct call *c, const char *id);
/* Their names, by id. */
json_t *wire_files_list(struct call *c);

#endif
