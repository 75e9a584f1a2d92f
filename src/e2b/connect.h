/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_CONNECT_H
#define VIAL_E2B_CONNECT_H

/*
 * The Connect protocol, in JSON or protobuf, which handlers do not tell apart: a call
 * is one message each way, or one message and a stream of frames. A stream's error
 * stands in its last frame; one that is cut has none.
 */

#include "e2b/http_ask.h"

/* As Connect has them; connect.c has their names. */
enum connect_code {
    CONNECT_INVALID,
    CONNECT_UNAUTHENTICATED,
    CONNECT_DENIED,
    CONNECT_NOT_FOUND,
    CONNECT_EXISTS,
    CONNECT_EXHAUSTED,
    CONNECT_DEADLINE,
    CONNECT_UNIMPLEMENTED,
    CONNECT_INTERNAL,
    CONNECT_UNAVAILABLE,
};

/* What a call comes to: 0, or -1 and this filled. */
struct connect_error {
    enum connect_code code;
    char message[ASK_WORDS];
};

__attribute__((format(printf, 3, 4))) int connect_fail(struct connect_error *e,
                                                       enum connect_code code,
                                                       const char *format, ...);
/* From an error of vial's. */
int connect_from(struct connect_error *e, const struct vial_error *err);

/* As in base/fail.h: an analyzer does not know that these fail. */
#if defined(__clang_analyzer__) && !defined(VIAL_CONNECT_ITSELF)
    #define connect_fail(...) ((void)connect_fail(__VA_ARGS__), -1)
    #define connect_from(...) ((void)connect_from(__VA_ARGS__), -1)
#endif

/* Whether the message comes in frames; false with *REFUSED: it was answered already, as
 * it comes in no form that is understood. */
bool connect_is_stream(struct ask *a, bool *refused);

/* The message of a call; of a stream, the frame at *AT, which moves behind it. 1; 0: no
 * frame is left. */
int connect_message(struct ask *a, json_t **out, struct connect_error *e);
int connect_frame(struct ask *a, size_t *at, json_t **out, struct connect_error *e);

/* Answers a call. VALUE is taken. */
void connect_answer(struct ask *a, json_t *value);
void connect_refuse(struct ask *a, const struct connect_error *e);

/* An answer in frames. */
struct connect_stream {
    struct ask *ask;
    bool started;
    int64_t sent_ns;  /* when the last frame went out */
    int64_t quiet_ms; /* after which something has to */
};

int connect_start(struct connect_stream *s, struct ask *a);
/* Takes MESSAGE. -1: the client is gone. */
int connect_send(struct connect_stream *s, json_t *message);
/* Sends one if nothing else was sent for long; the client asks how often. */
int connect_keep_alive(struct connect_stream *s, const char *form);
void connect_end(struct connect_stream *s,
                 const struct connect_error *e); /* NULL: well */
void connect_cut(struct connect_stream *s);

/* Who the caller wants to be: 0, or -1 if nobody has that name. */
int connect_user(struct ask *a, bool *root, struct connect_error *e);
/* The same of NAME. */
int connect_check_user(const struct ask *a, const char *name, bool *root,
                       struct connect_error *e);
/* The home of the user whose files A asks for. */
const char *box_home(const struct ask *a);

/* Values of messages. Names may be in camel or snake case. */
json_t *connect_member(const json_t *object, const char *camel, const char *snake);
json_t *connect_bytes(const void *data, size_t len); /* base64 */

/* box_path.c: where a path leads: absolute, or below HOME. -1: it leads nowhere. */
struct str;
int box_path(const char *home, const char *path, struct str *out,
             struct connect_error *e);
/* The same below the home, as the session has it; else as it is. */
const char *box_name(const char *path);

/* The services. METHOD is the path's last part. */
void process_call(struct ask *a, const char *method);
void filesystem_call(struct ask *a, const char *method);

/* files_download.c, files_upload.c */
void files_download(struct ask *a);
/* Answers with the file at PATH, which is absolute. */
void files_send(struct ask *a, const char *path);
void files_upload(struct ask *a);
/* Whether the user is one that there is; else that is said. */
bool files_check_user(struct ask *a);
void files_refuse(struct ask *a, const struct connect_error *e);

#endif
