/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_FILES_H
#define VIAL_FILES_H

/*
 * Files of a session. A relative path lies below its working directory. The guest
 * resolves it inside the vessel, one component at a time and without following any
 * link.
 *
 * An absolute path ("/tmp/a") is what a program of the session would find there: the
 * operation is done by a process that is confined as its programs are, has their user,
 * and follows links as they do. So nothing leads out here, either. It costs a process
 * for a moment, which counts among the vessel's.
 *
 * No path has '.', '..' or empty parts, or ends in a slash. A name may hold every byte
 * but NUL and '/'.
 *
 * Errors: VIAL-PATH for a path that is not plain, or leads through a link;
 * VIAL-NO-FILE for what is not there; VIAL-QUOTA for what does not fit;
 * VIAL-OFFSET behind a file's end; VIAL-FILE for all else, with its cause.
 */

#include "vial/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_entry {
    char *path; /* relative to what was listed; "" for what stat was asked about */
    char type;  /* 'f' file, 'd' directory, 'l' link, 'o' other */
    unsigned mode;
    uint64_t size, mtime_ns;
    uint64_t holes;    /* bytes of SIZE that were never written; 0 if they are few */
    const char *media; /* "image/png" …, by the name's ending; static storage */
    char sha256[65];   /* of its content, in hex; "" but for vial_session_changes */
    uint32_t uid, gid; /* as programs of the vessel see them */
    char *target;      /* what a link says, as it says it; NULL: it is none */
    char *attributes;  /* a file's extended attributes "user.NAME", as lines
                          "NAME=VALUE", each with its newline; NULL: none. Those of
                          printable ASCII, 4096 bytes in all; others are left out */
};

struct vial_entries {
    struct vial_entry *items; /* sorted by path */
    size_t count;
};

/* Writes a file: under another name first, so that nobody sees half of it.
 * Parents are made. MODE 0: as a file that is there, whose owner it keeps, else 0644.
 */
VIAL_API VIAL_MUST_CHECK int vial_session_put(struct vial_session *session,
                                              const char *path, const void *data,
                                              size_t len, unsigned mode,
                                              struct vial_error *err);

/* Zero-initialise: 0 and NULL mean the usual value. */
struct vial_put_options {
    unsigned mode;
    const char *attributes; /* as in vial_entry: all that the file will have; NULL:
                               none. VIAL-UNSUPPORTED where its file system has none */
    bool as_root;           /* as the functions "…_as" at the end have it */
};
VIAL_API VIAL_MUST_CHECK int vial_session_put_with(
    struct vial_session *session, const char *path, const void *data, size_t len,
    const struct vial_put_options *options, struct vial_error *err);

/* The same from FD, which is read until its end and stays open. */
VIAL_API VIAL_MUST_CHECK int vial_session_put_fd(struct vial_session *session,
                                                 const char *path, int fd,
                                                 unsigned mode, struct vial_error *err);

/* Reads LEN bytes from OFFSET on (0: to the end), or as many as there are. *DATA
 * is malloc'ed, and has a NUL behind it that is not counted. At most 256 MiB. */
VIAL_API VIAL_MUST_CHECK int vial_session_get(struct vial_session *session,
                                              const char *path, uint64_t offset,
                                              uint64_t len, char **data, size_t *got,
                                              struct vial_error *err);

/* The same into FD, without a limit. */
VIAL_API VIAL_MUST_CHECK int vial_session_get_fd(struct vial_session *session,
                                                 const char *path, uint64_t offset,
                                                 uint64_t len, int fd,
                                                 struct vial_error *err);

/* Lists a directory ("" or ".": the working directory), and with DEEP its directories
 * as well. Links are listed, never followed. */
VIAL_API VIAL_MUST_CHECK int vial_session_list(struct vial_session *session,
                                               const char *path, bool deep,
                                               struct vial_entries *out,
                                               struct vial_error *err);

/* Zero-initialised entries are allowed. */
VIAL_API void vial_entries_free(struct vial_entries *entries);

/* One name, itself if it is a link. OUT owns its target, for vial_entry_done. */
VIAL_API VIAL_MUST_CHECK int vial_session_stat(struct vial_session *session,
                                               const char *path, struct vial_entry *out,
                                               struct vial_error *err);

/* The same, but of a link at an absolute path what it leads to. */
VIAL_API VIAL_MUST_CHECK int vial_session_stat_followed(struct vial_session *session,
                                                        const char *path,
                                                        struct vial_entry *out,
                                                        struct vial_error *err);

/* Gives back what an entry of vial_session_stat owns. */
VIAL_API void vial_entry_done(struct vial_entry *entry);

/* A directory with its parents; one that exists is good. */
VIAL_API VIAL_MUST_CHECK int vial_session_mkdir(struct vial_session *session,
                                                const char *path,
                                                struct vial_error *err);

/* Renames; a file at TO is replaced. */
VIAL_API VIAL_MUST_CHECK int vial_session_move(struct vial_session *session,
                                               const char *from, const char *to,
                                               struct vial_error *err);

/* A file or an empty directory; with DEEP also what is in it. */
VIAL_API VIAL_MUST_CHECK int vial_session_remove(struct vial_session *session,
                                                 const char *path, bool deep,
                                                 struct vial_error *err);

/* The files below PATH that are not in BEFORE, or differ from it: a list made
 * earlier of the same path, or NULL. They are read to be hashed; one that cannot
 * be (any more) is left out. */
VIAL_API VIAL_MUST_CHECK int vial_session_changes(struct vial_session *session,
                                                  const char *path,
                                                  const struct vial_entries *before,
                                                  struct vial_entries *out,
                                                  struct vial_error *err);

/* The same as malloc'ed JSON, in the form of a result's `artifacts`: a list of objects
 * with path, type, bytes, sha256 and, for images of at most 4 MiB each and 16 MiB
 * together, content_base64. At most 256 of them. */
VIAL_API VIAL_MUST_CHECK int vial_session_artifacts(struct vial_session *session,
                                                    const char *path,
                                                    const struct vial_entries *before,
                                                    char **json,
                                                    struct vial_error *err);

enum vial_event_kind {
    VIAL_EVENT_CREATED,
    VIAL_EVENT_WRITTEN, /* closed after it was open for writing */
    VIAL_EVENT_REMOVED,
    VIAL_EVENT_MOVED,     /* within what is watched */
    VIAL_EVENT_GAP,       /* events were lost: list again to know */
    VIAL_EVENT_ATTRIBUTES /* its mode, owner, times … changed */
};

/* Something that happened to a file. */
struct vial_event {
    enum vial_event_kind kind;
    char path[4096]; /* below what is watched; "" for a gap */
    char from[4096]; /* of a move; else "" */
};

struct vial_watcher;

enum vial_watch_flag {
    VIAL_WATCH_DEEP = 1,      /* all below it, also directories to come */
    VIAL_WATCH_ATTRIBUTES = 2 /* VIAL_EVENT_ATTRIBUTES are told */
};
#define VIAL_WATCHERS_MAX 8u /* of a session at once; one more is VIAL-BUSY */

/* Watches a directory from the moment this returns. *OUT is given back with
 * vial_watcher_free, before the session is. Events wait in a queue of bounded length:
 * what does not fit is told as a gap. More than 8192 directories are VIAL-QUOTA at
 * first, and a gap later. FLAGS: of enum vial_watch_flag. */
VIAL_API VIAL_MUST_CHECK int vial_session_watch(struct vial_session *session,
                                                const char *path, unsigned flags,
                                                struct vial_watcher **out,
                                                struct vial_error *err);

/* The next event, waiting at most TIMEOUT_MS for it (0: not at all; < 0: as long as
 * it takes). 1; 0 when none came; -1. */
VIAL_API VIAL_MUST_CHECK int vial_watcher_next(struct vial_watcher *watcher,
                                               int64_t timeout_ms,
                                               struct vial_event *out,
                                               struct vial_error *err);

/* "created", "written" and so on. Static storage. */
VIAL_API const char *vial_event_name(enum vial_event_kind kind);

/* NULL is allowed. */
VIAL_API void vial_watcher_free(struct vial_watcher *watcher);

/* The same by root with ROOT, where programs of the session may be that
 * (vial_exec_options.as_root; else VIAL-UNSUPPORTED): at absolute paths, and with the
 * rights of such a program. FOLLOWED: of a link what it leads to. */
VIAL_API VIAL_MUST_CHECK int vial_session_stat_as(struct vial_session *session,
                                                  bool root, bool followed,
                                                  const char *path,
                                                  struct vial_entry *out,
                                                  struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_session_get_as(struct vial_session *session,
                                                 bool root, const char *path,
                                                 uint64_t offset, uint64_t len,
                                                 char **data, size_t *got,
                                                 struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_session_list_as(struct vial_session *session,
                                                  bool root, const char *path,
                                                  bool deep, struct vial_entries *out,
                                                  struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_session_mkdir_as(struct vial_session *session,
                                                   bool root, const char *path,
                                                   struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_session_move_as(struct vial_session *session,
                                                  bool root, const char *from,
                                                  const char *to,
                                                  struct vial_error *err);
VIAL_API VIAL_MUST_CHECK int vial_session_remove_as(struct vial_session *session,
                                                    bool root, const char *path,
                                                    bool deep, struct vial_error *err);

/* Writes the files and directories below PATH to FD as a tar archive (ustar, pax
 * for long names). Links and other kinds are left out, and counted in *LEFT_OUT,
 * which may be NULL. */
VIAL_API VIAL_MUST_CHECK int vial_session_export(struct vial_session *session,
                                                 const char *path, int fd,
                                                 size_t *left_out,
                                                 struct vial_error *err);

/* Takes in a tar archive (ustar, pax, GNU long names) from FD, below PATH. An
 * archive that holds a link, a device or a path that is not plain is VIAL-TAR;
 * what came before that stays. */
VIAL_API VIAL_MUST_CHECK int vial_session_import(struct vial_session *session,
                                                 const char *path, int fd,
                                                 struct vial_error *err);

#ifdef __cplusplus
}
#endif
#endif
