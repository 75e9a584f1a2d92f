/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_FILE_BYTES_H
#define VIAL_ENGINE_SESSION_FILE_BYTES_H

/*
 * A file on its way in or out, piece by piece, by the calling thread. After a
 * begin that succeeded, one *_end must follow, also after a failure in between.
 */

#include "engine/session/session.h"

#include "vial/files.h"

struct files_way {
    struct vial_session *session;
    const char *path; /* borrowed, for messages */
    const char *verb; /* "put" */
    bool bounded;     /* a file that comes out has at most: */
    uint64_t left;    /* so many bytes more */
    bool root;        /* by root, where the session's programs may be that */
    bool helped;      /* a process inside does it, which programs there can stop */
    struct session_op op;
};

int files_put_begin(struct files_way *w, struct vial_session *s, const char *path,
                    unsigned mode, struct vial_error *err);
int files_put_some(struct files_way *w, const void *data, size_t len,
                   struct vial_error *err);
/* WHOLE false: it is given up, and leaves nothing. */
int files_put_end(struct files_way *w, bool whole, struct vial_error *err);

/* All three, with what NEXT gives: 1 and bytes, 0 at the end, or -1: it is given up. */
typedef int files_source(void *context, const char **data, size_t *len);
int files_put_from(struct vial_session *session, const char *path,
                   const struct vial_put_options *how, files_source *next,
                   void *context, struct vial_error *err);

#define FILES_LIGHT (128u << 10) /* less than a fresh channel takes at once */

/* A whole file of at most FILES_LIGHT bytes in one go, with the session's lock held;
 * nothing is written to the guest yet. It does everything in order, so that what is
 * asked behind this finds the file. Success must be followed by files_put_settle. */
int files_put_queue(struct files_way *w, struct vial_session *s, const char *path,
                    const struct blob *content, unsigned mode, struct vial_error *err);
/* Tells what became of it, as far as it is known by now. */
int files_put_settle(struct files_way *w, struct vial_error *err);

/* The most that all files at PATH can have, whatever the guest says; UINT64_MAX where
 * some are the caller's own, or of the system that programs see. */
uint64_t files_most(const struct vial_session *s, const char *path);
int files_get_begin(struct files_way *w, struct vial_session *s, const char *path,
                    uint64_t offset, uint64_t len, struct vial_error *err);
/* Moves what has come to the end of OUT, after waiting for it. 1, 0 at the end,
 * or -1. */
int files_get_some(struct files_way *w, struct str *out, struct vial_error *err);
void files_get_end(struct files_way *w);
/* All three, for who takes pieces: 0, or -errno, which ends it. */
struct files_sink {
    int (*take)(void *context, const char *data, size_t len);
    void *context;
    bool root; /* it is read by root */
};
int files_get_to(struct vial_session *session, const char *path, uint64_t offset,
                 uint64_t len, const struct files_sink *to, struct vial_error *err);
/* Something is asked of the guest; exactly one is there. */
struct files_ask {
    const struct put_message *put;
    const struct get_message *get;
    const struct name_message *name;
    const struct watch_message *watch;
    const char *list; /* a path */
};
/* Opens W's channel by asking; the answers are W's from now on. */
int files_enter(struct files_way *w, const struct files_ask *ask,
                struct vial_error *err);
/* DIR/NAME, where either may be "". malloc'ed, or NULL. */
char *files_join(const char *dir, const char *name);

/* The error that the guest gave for W. */
int files_fail(const struct files_way *w, struct vial_error *err);
/* "./a" is "a", "." is "", "/./a/" is "/a". malloc'ed, or NULL. */
char *files_name(const char *path);
/* What the guest is asked for. malloc'ed, or NULL. */
char *files_inside(const struct vial_session *s, const char *path);
/* VIAL-PATH unless that is plain; "", "." and "/" too where MAY_BE_SELF. */
int files_check_path(const struct vial_session *s, const char *path, bool may_be_self,
                     struct vial_error *err);

#endif
