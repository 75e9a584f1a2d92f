/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_GOJUDGE_CMD_H
#define VIAL_WIRES_GOJUDGE_CMD_H

/*
 * One command of go-judge's: a vessel of its own, with files that are copied in and
 * out, and streams that are collected or lead to another command.
 */

#include "base/json.h"
#include "wires/turn.h"

/* Where a stream goes. */
struct cmd_stream {
    char *name;   /* it comes back under that; or NULL */
    int64_t most; /* bytes of it */
    bool proxy;   /* more than that is no fault: it is a copy of what a pipe carries */
    int pipe_fd;  /* to another command; or -1 */
    bool live;    /* the client hears it */
};

/* Streams that a client has while commands run (gojudge_stream.c). */
struct cmd_live {
    /* A piece of stream FD of the command INDEX; -1: nobody takes it. */
    int (*output)(void *context, size_t index, int fd, const void *data, size_t len);
    /* Takes FD, by which input of the command INDEX comes. */
    void (*input)(void *context, size_t index, int fd);
    /* All inputs were given, or the request is refused. */
    void (*begun)(void *context);
    void *context;
};

struct cmd {
    struct call *call;
    const struct cmd_live *live; /* or NULL */
    size_t index;                /* among those of its request */
    int cancel_fd;               /* as in struct job */
    struct vial_request *req;
    struct cmd_stream streams[3];       /* 1 and 2 are used */
    int stdin_fd;                       /* from another command; or -1 */
    json_t *copy_out, *copy_out_cached; /* borrowed from the body */
    int64_t copy_out_max;
    bool truncate;
    uint64_t paid; /* of its caller's share of bodies, for copies of files kept here */
    bool over;     /* it wrote more than one of its streams takes */
    struct stage stage;
    struct vial_error error; /* it was not run */
};

#define CMD_PIPE_BYTES (64 << 10)
/* A pipe to a command's input: ENDS are what it reads and what is written. */
int cmd_pipe(int ends[2], struct vial_error *err);

/* Reads one; -1: it is at fault. */
int cmd_read(struct call *c, json_t *given, struct cmd *out, struct vial_error *err);
/* Runs it, within a turn of its caller's. */
void cmd_run(struct cmd *cmd);
/* Its result, with stand-ins for bytes that CMD has, *BYTES of them; NULL: no memory. */
json_t *cmd_result(struct cmd *cmd, struct json_larges *larges, uint64_t *bytes);
void cmd_done(struct cmd *cmd);

#endif
