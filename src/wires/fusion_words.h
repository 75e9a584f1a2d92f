/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_FUSION_WORDS_H
#define VIAL_WIRES_FUSION_WORDS_H

/* SandboxFusion's bodies: how members are judged, and what answers look like. */

#include "base/json.h"
#include "wires/turn.h"

enum fusion_kind {
    FUSION_TEXT,
    FUSION_TEXT_OR_NULL,
    FUSION_NUMBER,
    FUSION_INTEGER,
    FUSION_OBJECT,
    FUSION_LIST
};

struct fusion_member {
    const char *name; /* NULL ends the table */
    enum fusion_kind kind;
    bool needed;
};

/* Reads C's body and judges it by MEMBERS; others are passed over. False: it was
 * answered, with 422. */
bool fusion_body(struct call *c, const struct fusion_member *members);
/* 422: the member NAME is at fault. */
void fusion_refuse_member(struct call *c, const char *name, const char *type,
                          const char *message);
/* {"detail": "text"}. */
void fusion_refuse_text(struct call *c, unsigned status, const char *text);
/* A refusal of any kind. */
void fusion_refuse(struct call *c, unsigned status, const struct vial_error *err);

/* "language": the entry of runtimes/wires; NULL: it was answered. */
json_t *fusion_language(struct call *c, const char *name);

/* Takes memory_limit_MB, files and fetch_files of the body BODY. IN_TMP: files may lie
 * below /tmp (fusion_tmp.h). */
int fusion_fill(struct vial_request *req, json_t *body, bool in_tmp,
                struct vial_error *err);
/* Seconds as ms; at least one. */
int64_t fusion_ms(json_t *seconds, int64_t usual_s);

/* What an answer is made of; its bytes are those of the outcome. */
struct fusion_answer {
    struct json_larges larges;
    uint64_t bytes;
};

/* An answer of /run_code, with the files that NAMES (or NULL) lists; NULL: no memory.
 */
json_t *fusion_outcome(struct fusion_answer *a, const struct outcome *o, json_t *names);
/* The same of a fault of our own. */
json_t *fusion_fault(const struct vial_error *err);
json_t *fusion_file(struct fusion_answer *a, const char *data, size_t len);
/* Sends and releases. */
void fusion_send(struct call *c, struct fusion_answer *a, json_t *json);
/* ERR is the request's own fault, and not one of ours. */
bool fusion_at_fault(const struct vial_error *err);
/* Answers what never ran. */
void fusion_not_run(struct call *c, const struct vial_error *err);

#endif
