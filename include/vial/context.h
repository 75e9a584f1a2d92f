/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CONTEXT_H
#define VIAL_CONTEXT_H

/*
 * An interpreter inside a session that remembers: what one cell defines, the
 * next one finds. Cells are like those of notebooks: `await` may stand anywhere; Python
 * has !command and %magics, Node has `import` and declares names again. A session may have several, of different languages; each runs
 * one cell at a time. The interpreter is part of the vessel, and what it says is
 * checked like everything from there.
 */

#include "vial/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_context;

/* Starts the interpreter of LANGUAGE (python, node, bash or r, by any name the language
 * table has for them) and waits until it is ready. *OUT is given back with
 * vial_context_close, before the session is. */
VIAL_API VIAL_MUST_CHECK int vial_context_open(struct vial_session *session,
                                               const char *language,
                                               struct vial_context **out,
                                               struct vial_error *err);

/* Runs a cell of LEN bytes, and gives malloc'ed JSON in *JSON:
 *
 *   status    "ok", "error", "interrupted", or "timeout" (interrupted by vial,
 *             whatever it did then)
 *   stdout, stderr, stdout_truncated, stderr_truncated
 *   value     what the last line gave: null, or an object by media type
 *             (text/plain, text/html, image/png as base64, application/json,
 *             application/vnd.vial.table+json: columns, rows, total_rows;
 *             application/vnd.vial.chart+json: what a figure of matplotlib shows)
 *   displays  a list of such objects: figures, and what display() was given
 *   order     in which they came: a list of {kind, length}, kind being stdout, stderr
 *             or display, length so many characters or displays; `value` is the last.
 *             What it does not tell (beyond 4096 changes) comes after it
 *   error     null, or name, value and traceback
 *
 * A cell has TIMEOUT_MS (0: the session's `timeout`, which is also the most). If
 * it does not stop then, or kills its interpreter, that is VIAL-CONTEXT, and only
 * vial_context_restart helps. While another cell runs: VIAL-BUSY. */
VIAL_API VIAL_MUST_CHECK int vial_context_run(struct vial_context *context,
                                              const char *code, size_t len,
                                              int64_t timeout_ms, char **json,
                                              struct vial_error *err);

/* The same, followed: WATCH, which may be NULL, gives `cancel_fd`, `output`,
 * `displayed`, and `correlation` for the audit log; the rest of it has no meaning here. A cell that is
 * cancelled is interrupted, and its state stays; if it does not stop at once its
 * interpreter is killed: VIAL-CONTEXT. */
VIAL_API VIAL_MUST_CHECK int vial_context_watch(struct vial_context *context,
                                                const char *code, size_t len,
                                                int64_t timeout_ms,
                                                const struct vial_watch *watch,
                                                char **json, struct vial_error *err);

/* Interrupts the running cell, from another thread; its state stays. */
VIAL_API VIAL_MUST_CHECK int vial_context_interrupt(struct vial_context *context,
                                                    struct vial_error *err);

/* Another interpreter in its place, which knows nothing. No cell may run. */
VIAL_API VIAL_MUST_CHECK int vial_context_restart(struct vial_context *context,
                                                  struct vial_error *err);

/* NULL is allowed. No cell may run. */
VIAL_API void vial_context_close(struct vial_context *context);

#ifdef __cplusplus
}
#endif
#endif
