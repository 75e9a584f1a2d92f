/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BENCH_BENCH_H
#define VIAL_BENCH_BENCH_H

/*
 * Ways to run a program that does nothing, measured beside each other.
 *
 *   bench_prepare -> bench_race -> bench_crowd -> bench_json -> bench_done
 *
 * Only ratios mean something: every round runs each way once, so that a busy moment
 * of the machine meets all of them.
 */

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"
#include "bench/limit_table.h"

#include "vial/vial.h"

#define BENCH_ARGS      160
#define BENCH_WALLS     "{walls}" /* among arguments: what bench_walls says */
#define BENCH_IMAGE     "python:3.11-slim"
#define BENCH_FILTER_FD 9 /* where a process finds the filter */

enum bench_kind {
    BENCH_SPAWN,   /* argv, as a process */
    BENCH_LIBRARY, /* vial_run in this process, without a pool */
    BENCH_WARM,    /* the same with one */
    BENCH_KEPT,    /* vial_keep_run: one vessel for all rounds */
    BENCH_DAEMON,  /* viald, over connections to its unix socket that are kept */
    BENCH_MCP      /* `vial mcp`, over its standard streams */
};

/* The first way of a group is what the others are compared with. */
struct way {
    const char *group, *name;
    enum bench_kind kind;
    const char *language, *code; /* of those that use the library */
    const char *driver;          /* NULL: auto */
    bool image;                  /* of the store, without an engine */
    bool imports;                /* its pool has numpy and pandas */
    bool crowd;                  /* asked by many at once, too */
    bool container;              /* needs the engine's command and an image */
    bool same;                   /* is given vial's filter, limits and walls */
    const char *argv[BENCH_ARGS];
};

extern const struct way bench_ways[];
extern const size_t bench_way_count;

#define BENCH_SELF "vial"

struct measured {
    char *program; /* of BENCH_SPAWN; NULL: not on this host */
    struct vial_request *request;
    struct vial_engine *engine;  /* borrowed */
    struct vial_keep *keep;      /* of BENCH_KEPT */
    struct bench_server *server; /* of BENCH_DAEMON and BENCH_MCP */
    int filter_fd; /* of those that are the same; owned by the bench, or -1 */
    const struct strv *walls;
    struct bench_limits *limits;
    double *ms; /* one per round, sorted at the end */
    size_t count;
    char absent[160]; /* why it was not measured; "" */
};

#define BENCH_CROWDS 4
extern const unsigned bench_crowds[BENCH_CROWDS];

struct bench {
    struct measured *at; /* bench_way_count of them */
    struct vial_engine *plain, *warm, *imported;
    int filter_fd;                  /* or -1 */
    struct bench_limits limits;     /* for those that have none of their own */
    struct strv walls;              /* arguments for bubblewrap */
    struct vial_error not_same;     /* why there is none of those three; code "" */
    char container[80];             /* one that runs, for `docker exec`; "" */
    double crowd[16][BENCH_CROWDS]; /* runs a second, by way among those with `crowd` */
    size_t rounds;
};

int bench_prepare(struct bench *b, size_t rounds, struct vial_error *err);
void bench_race(struct bench *b);
void bench_crowd(struct bench *b, double seconds);
/* A descriptor of vial's own filter, or -1. */
int bench_open_filter(struct vial_error *err);
/* Arguments with which bubblewrap shows of /etc and hides of /proc what a vessel does.
 */
int bench_walls(struct vial_engine *engine, struct strv *out, struct vial_error *err);

/* A process; OUT: where its first output goes, FILTER_FD: what it finds as
 * BENCH_FILTER_FD, each -1 for nothing; GROUP: what it joins first, or NULL. */
struct bench_child {
    const char *program;
    const char *const *argv;
    int out, filter_fd;
    const struct bench_group *group;
    bool talks; /* OUT is its input as well */
};
int bench_spawn(const struct bench_child *c, pid_t *pid); /* 0 or -errno */

/* servers.c: a daemon, or an MCP server, that has interpreters wait for WAY's language.
 * *OUT is to be closed, whatever this gives. */
struct bench_server;
int bench_server_open(const struct way *way, struct bench_server **out,
                      struct vial_error *err);
enum bench_answer { BENCH_BAD, BENCH_COLD, BENCH_HIT };
enum bench_answer bench_server_ask(struct bench_server *s); /* by many threads */
void bench_server_rest(void);                    /* until another interpreter waits */
void bench_server_close(struct bench_server *s); /* NULL is allowed */
json_t *bench_json(const struct bench *b);
void bench_done(struct bench *b);

/* A picture of RESULT, as SVG; malloc'ed, NULL without memory. */
char *bench_plot(json_t *result);
/* Tables for people; an exit status. */
int bench_print(json_t *result);

/* sessions.c: an open session beside bare programs and pipes. */
int bench_session(size_t rounds, json_t **out, struct vial_error *err);
int bench_print_session(const json_t *result);

/* promises.c: the durations that the presets' documents promise. */
int bench_promises(size_t rounds, json_t **out, struct vial_error *err);
int bench_print_promises(const json_t *result);

#endif
