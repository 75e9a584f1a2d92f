/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_PRESET_H
#define VIAL_MCP_PRESET_H

/* What the tools of a preset share. The preset's data says what each is called, what
 * it takes, which of the verbs below it is, and how its answer reads. */

#include <pthread.h>

#include "mcp/tool.h"
#include "settings/settings.h"

#include "vial/keep.h"

/* The text at KEY of a preset's data, or NULL. */
static inline const char *preset_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Everything of one table of tools. */
struct preset_world {
    const struct settings *settings; /* the engine's */
    json_t *block;                   /* the preset's own (settings/preset.h) */
    json_t *words;                   /* the settings in texts (mcp/settings_text.h) */
    struct strv texts;               /* descriptions made of them */
    int64_t timeout_ms, max_timeout_ms; /* the usual one, and the policy's cap */
    pthread_mutex_t lock;               /* for what follows */
    struct preset_kept *kept;           /* a vessel for each caller */
    size_t kept_count;
    struct preset_tool {
        struct preset_world *world;
        json_t *tool; /* borrowed from BLOCK */
    } * tools;
};

/* One call on its way. */
struct preset_job {
    const struct preset_tool *tool;
    struct mcp_call *call;
    json_t *values;   /* what an answer's text and JSON can name */
    json_t *flags;    /* what a line's `when` can name */
    json_t *images;   /* content blocks that follow the text, or NULL */
    struct str notes; /* lines that end the text: files that came back */
    bool failed;      /* the answer is marked as an error */
};

/* The argument that goes to PART ("shell", "id" …), or NULL. */
const json_t *preset_value(const struct preset_job *job, const char *part);
const char *preset_part(const struct preset_job *job, const char *part);

/* The request that the arguments make. */
int preset_request(const struct preset_job *job, struct vial_request **out,
                   struct vial_error *err);

/* What came of a run, as values and flags. LIMIT_MS: the time-out it had. */
void preset_tell_result(struct preset_job *job, const struct vial_result *result,
                        int64_t limit_ms);
/* That DRIVER stands in for WANTED, unless that is "". */
void preset_tell_stand_in(struct preset_job *job, const char *driver,
                          const char *wanted);
void preset_tell_error(struct preset_job *job, const struct vial_error *err);
void preset_tell(struct preset_job *job, const char *name, json_t *value); /* takes */

/* How many characters of the output an answer shows; 0: the request says in bytes. */
size_t preset_limit(const struct preset_job *job);

/* Makes the answer out of them, as the tool's data says. */
void preset_answer(struct preset_job *job, struct mcp_answer *answer);

/* The schema of its structured part. */
json_t *preset_output(const json_t *tool);

/* Does what the tool does. */
void preset_call(const struct mcp_tool *tool, struct mcp_call *call,
                 struct mcp_answer *answer);

/* Says that the tool's call was not let in. */
void preset_refuse(const struct mcp_tool *tool, struct mcp_call *call,
                   const struct vial_error *err, struct mcp_answer *answer);

/* Runs in the vessel that is kept alive for the caller. */
int preset_run_kept(struct preset_job *job, const struct vial_request *req,
                    const struct vial_watch *watch, struct vial_result **out,
                    struct vial_error *err);
void preset_end_kept(struct preset_world *w);

#endif
