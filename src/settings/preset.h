/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_PRESET_H
#define VIAL_SETTINGS_PRESET_H

/*
 * The block `preset` of a preset's file: what one system calls things. It is data,
 * judged once when it is read; it names fields, policy keys and error codes that
 * exist, and has no word for what no request can ask for.
 *
 *   about        one line: what it re-enacts
 *   fallback     driver to take when the preset's own needs an engine that is absent
 *   variables    environment variable -> where its value goes
 *   config       block of a settings file, its keys -> where their values go
 *   mounts       what is shown inside; "$NAME" is a variable, absent: no mount;
 *                `create`: made when missing, `optional`: left out then
 *   images       image by language or by a program of the command
 *   languages    how entries of a foreign language file translate
 *   labels       of runs that bring none: `session: repository`, `task: unique`
 *   keep         keep-alive: alive, executions, idle
 *   packages     the caller's own Python packages are shown to native runs
 *   dotenv       a project's file that may have the variables' values
 *   warm         an MCP server of its own has vessels wait, each used once
 *   commands     words of the command line -> words of ours
 *   codes        its own error codes: meaning and remedy, for 'vial errors'
 *   errors       our error codes -> theirs;  verdicts: likewise
 *   messages     our error codes -> what stands before the message, and the remedy
 *   tools        MCP tools: texts, parameters, what they do, what they answer.
 *                "{memory}" in a description is the setting in force
 * (mcp/settings_text.h),
 *                "{stdout}" in an answer what came of the call; an end that an answer
 *                has no line for is told in vial's own words
 *
 * Where a value goes (`sets`): a field's name, "policy.KEY", "keep.KEY", "serve.KEY",
 * "images.NAME", "languages", or nothing. Before that it goes through `values` (all
 * that are allowed) or `form` ("{}s", for numbers; `percent`: hundredths);
 * `refuses` has values with the reason why not. `when: NAME=VALUE`: only under that
 * variable. `default`: when the variable is not set.
 */

#include <jansson.h>

#include "vial/error.h"

struct preset;

/* Judges BLOCK (borrowed; NULL: an empty one). */
int preset_new(const char *name, json_t *block, struct preset **out,
               struct vial_error *err);
void preset_free(struct preset *p); /* NULL is allowed */

const char *preset_name(const struct preset *p);

/* The whole block with its name; null when P is NULL. NULL without memory. */
json_t *preset_json(const struct preset *p);

/* A key of the block, or NULL. P may be NULL. Borrowed. */
json_t *preset_get(const struct preset *p, const char *key);

/* The preset's own code for our error CODE ("VIAL-MOUNT") or, when that has none,
 * for VERDICT ("oom"); NULL: none. P and both names may be NULL. Borrowed. */
const char *preset_code(const struct preset *p, const char *code, const char *verdict);

/* Puts the preset's words for an error before ours, and its remedy in place of ours.
 * P may be NULL. */
void preset_reword(const struct preset *p, struct vial_error *err);

/* How many of WORDS (NULL-terminated) are one of the preset's commands: the longest
 * that fits. *BECOMES: our words for it, separated by blanks. 0: none. */
size_t preset_command(const struct preset *p, char *const *words, const char **becomes);

#endif
