/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_HTTP_CALL_H
#define VIAL_SERVE_HTTP_CALL_H

/*
 * One request to the daemon while it is served: who asks, what the path held, and
 * how it is answered. A handler answers once.
 */

#include <jansson.h>

#include "base/json.h"
#include "serve/service.h"

#define CALL_PARAMS 3

struct call {
    struct serve *serve;
    struct generation *gen;
    struct web_request *web;
    struct identity who;
    struct caller *caller;
    char id[72];               /* correlates log lines, runs and answers */
    char *params[CALL_PARAMS]; /* what the route's braces stood for; owned */
    int64_t began_ns;
    unsigned status;
    unsigned retry_s; /* when it is refused for now; 0: the usual */
    json_t *notes;    /* for the log line; may be NULL */
    json_t *body;     /* what call_body read; owned */
};

/* Adds to the log line of this call. */
void call_note(struct call *c, const char *name, const char *value);

/* Reads the body, one JSON object, strictly. An empty body is an empty object. */
int call_body(struct call *c, struct vial_error *err);

/* Refuses query parameters that are not in KNOWN ("a|b|c", or ""). */
int call_query(struct call *c, const char *known, struct vial_error *err);
/* A switch: absent, "0" and "false" are false. */
bool call_flag(const struct call *c, const char *name);
/* A whole number; absent: left as it is. */
int call_number(const struct call *c, const char *name, int64_t *out,
                struct vial_error *err);

/* Answers. VALUE is taken; NULL counts as no memory. */
void call_json(struct call *c, unsigned status, json_t *value);
void call_text(struct call *c, unsigned status, const char *type, const char *text,
               size_t len);
/* Takes malloc'ed JSON text. */
void call_given(struct call *c, unsigned status, char *json);
/* The same for text that may be long: what it takes is paid for until the client has
 * it, or refused with VIAL-BUSY. */
void call_long(struct call *c, unsigned status, char *json);
/* An answer with large parts. */
struct call_tree {
    const json_t *json; /* NULL counts as no memory */
    const struct json_larges *larges;
    uint64_t bytes; /* of those */
    enum json_style style;
};

/* In pieces where it is large. The same text is kept for KEY (or NULL) before the
 * client has the last of it, if it is no longer than CALL_COPY; else KEY may be used
 * again. */
#define CALL_COPY ((size_t)8 << 20)
void call_tree(struct call *c, unsigned status, const struct call_tree *tree,
               const char *key);
void call_result(struct call *c, unsigned status, const struct vial_result *result,
                 const char *key);
void call_done(struct call *c); /* 204 */
void call_error(struct call *c, const struct vial_error *err);
void call_refuse(struct call *c, const struct vial_error *err, unsigned retry_s);

/* For the audit log: this call, or a part of it, was turned away. */
void call_refused(struct call *c, const struct vial_error *err);

/* The same, counted and logged as well; gives the status that ERR stands for. The
 * answer is the caller's. */
unsigned call_turned_away(struct call *c, const struct vial_error *err);

/* The HTTP status that an error stands for. */
unsigned call_status_of(const struct vial_error *err);

/* stream.c: events, one after the other. */
enum stream_form { STREAM_NONE, STREAM_NDJSON, STREAM_SSE };

struct stream {
    struct call *call;
    enum stream_form form;
    char held[2][4]; /* the first bytes of a character that is not whole */
    size_t held_len[2];
    bool live;          /* nobody waits for the client, see stream_live */
    bool stalled;       /* it takes nothing: it is given nothing */
    bool paid;          /* for what waits for the client */
    uint64_t missed[2]; /* bytes that it was not given since it was told */
    uint64_t taken;     /* by the client, when it was last looked at, … */
    int64_t taken_ns;   /* … and since when it is so */
};

/* Tells which stream the client wants: ?stream=ndjson|sse, or the header Accept. */
int stream_wanted(struct call *c, enum stream_form *out, struct vial_error *err);
int stream_start(struct stream *s, struct call *c, enum stream_form form);
/* From now on what is told never waits for the client. stream_room says whether it has
 * room for more; one that takes nothing for the setting `slow` misses the rest, and is
 * told how much that was: an event "gap". */
void stream_live(struct stream *s);
bool stream_room(struct stream *s);
/* Takes TOLD. -1: the client is gone. */
int stream_event(struct stream *s, const char *event, json_t *told);
/* An event "result" with RESULT and what MORE (taken) has, in pieces. */
int stream_result(struct stream *s, json_t *more, const struct vial_result *result);
/* A step of pulling an image: an event "progress". */
int stream_pull(struct stream *s, const char *layer, const char *status,
                unsigned long long current, unsigned long long total);
/* Output of stream 1 or 2, as text or, where it is none, base64. OFFSET < 0: none. */
int stream_output(struct stream *s, int stream, int64_t offset, const void *data,
                  size_t len);
/* The last event, behind all output, and the end. Takes TOLD. */
int stream_last(struct stream *s, const char *event, json_t *told);

/* The same without an event. */
void stream_end(struct stream *s);

#endif
