/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_SESSION_CASE_H
#define VIAL_TESTS_SESSION_CASE_H

/* A session on each driver; one that cannot work on this host is skipped, with
 * its reason. */

#include "on_driver.h"

#define good(call)                                                                     \
    do {                                                                               \
        struct vial_error err = { 0 };                                                 \
        if ((call) < 0)                                                                \
            fail_msg("%s: %s: %s (%s)", #call, err.code, err.message, err.cause);      \
    } while (0)

#define refused(call, want)                                                            \
    do {                                                                               \
        struct vial_error err = { 0 };                                                 \
        assert_int_equal(call, -1);                                                    \
        assert_string_equal(err.code, want);                                           \
    } while (0)

/* A session with the request's MEMBERS and OPTIONS, which may be NULL. */
static inline struct vial_session *open_with(const struct on *on, const char *members,
                                             const struct vial_session_options *options)
{
    struct vial_session *s = NULL;
    struct vial_request *req;
    char json[1024];

    (void)snprintf(json, sizeof json, "{'driver':'%s',%s}", on->driver, members);
    req = case_request(json);
    good(vial_session_open(on->engine, req, options, &s, &err));
    vial_request_free(req);
    return s;
}

static inline struct vial_session *open_on(const struct on *on)
{
    return open_with(on, "'timeout':'60s','disk':'64m'", NULL);
}

static inline struct vial_exec *start(struct vial_session *s, const char *line)
{
    struct vial_exec_options o = { .shell = line };
    struct vial_exec *x = NULL;

    good(vial_session_exec(s, &o, &x, &err));
    return x;
}

#define PATIENCE_MS 120000 /* only reached when something is broken */

static inline struct vial_exec_status wait_for(struct vial_exec *x)
{
    struct vial_exec_status st;

    vial_exec_wait(x, PATIENCE_MS, &st);
    assert_false(st.running);
    return st;
}

/* All of a stream as a text; malloc'ed. */
static inline char *read_whole(struct vial_exec *x, int stream)
{
    struct vial_chunk c = { 0 };
    char *text = calloc(1, 65536);
    uint64_t at = 0;

    while (!c.end) {
        good(vial_exec_read(x, stream, at, text + at, 65535 - at, PATIENCE_MS, &c,
                            &err));
        assert_int_equal(c.gap, 0);
        at += c.len;
        assert_true(at < 65535);
    }
    return text;
}

static inline void assert_output(struct vial_exec *x, int stream, const char *want)
{
    char *text = read_whole(x, stream);

    assert_string_equal(text, want);
    free(text);
}

/* Runs LINE and compares its verdict and stdout. */
static inline void check_line(struct vial_session *s, const char *line,
                              const char *want)
{
    struct vial_exec *x = start(s, line);
    struct vial_exec_status st = wait_for(x);

    if (st.verdict != VIAL_OK)
        fail_msg("'%s': %s, exit code %d, %s %s", line, vial_verdict_name(st.verdict),
                 st.exit_code, st.error.code, st.error.message);
    assert_output(x, 1, want);
    vial_exec_free(x);
}

static inline void prepare(struct on *on)
{
    struct vial_request *req;
    struct vial_session *s = NULL;
    struct vial_error err = { 0 };
    char json[64];

    (void)snprintf(json, sizeof json, "{'driver':'%s'}", on->driver);
    req = case_request(json);
    if (vial_session_open(on->engine, req, NULL, &s, &err) < 0)
        (void)snprintf(on->why_not, sizeof on->why_not, "%s: %s", err.code,
                       err.message);
    vial_session_free(s);
    vial_request_free(req);
}

#endif
