/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/common_oj.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "model/request.h"
#include "wires/faces.h"
#include "wires/fusion_words.h"
#include "wires/wires.h"

#define COMPILED_S    10
#define INTERPRETED_S 20
#define NEAR          1e-5
#define TESTS_MOST    10000u
#define FENCE         "```"

struct judging {
    struct call *call;
    json_t *config, *entry, *tests;
    const char *language;
    struct str code;
    struct fusion_answer answer;
    struct outcome *outcomes; /* one for each test, kept until the answer was sent */
};

/* A piece of text. */
struct part {
    const char *at;
    size_t len;
};

static struct part strip(struct part p)
{
    while (p.len > 0 && isspace((unsigned char)p.at[0])) {
        p.at++;
        p.len--;
    }
    while (p.len > 0 && isspace((unsigned char)p.at[p.len - 1]))
        p.len--;
    return p;
}

/* The first fenced block whose mark is NAMED (NULL: any). One that does not end goes to
 * the text's end, and counts only if UNFINISHED. */
static bool find_block(const char *text, const char *named, bool unfinished,
                       struct part *out)
{
    const char *at = text;

    while ((at = strstr(at, FENCE))) {
        const char *mark = at + strlen(FENCE);
        size_t len = strcspn(mark, "\n");
        const char *code = mark[len] ? mark + len + 1 : mark + len;
        const char *end = strstr(code, FENCE);
        struct part name = strip((struct part){ mark, len });

        if ((end || unfinished) &&
            (!named || (name.len == strlen(named) &&
                        strncasecmp(name.at, named, name.len) == 0))) {
            *out = (struct part){ code, end ? (size_t)(end - code) : strlen(code) };
            return true;
        }
        if (!end)
            return false;
        at = end + strlen(FENCE);
    }
    return false;
}

static void extract(struct judging *s, const char *text)
{
    struct part found = { "", 0 };

    if (find_block(text, s->language, false, &found) ||
        find_block(text, NULL, false, &found) || find_block(text, NULL, true, &found))
        str_add(&s->code, found.at, found.len);
}

static struct part next_line(struct part *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->at) : rest->len;
    struct part line = { rest->at, len };

    rest->at += len + (end != NULL);
    rest->len -= len + (end != NULL);
    return strip(line);
}

static bool as_number(struct part p, double *out)
{
    char text[64];
    char *end;

    if (p.len == 0 || p.len >= sizeof(text))
        return false;
    memcpy(text, p.at, p.len);
    text[p.len] = '\0';
    *out = strtod(text, &end);
    return *end == '\0';
}

static double size(double x)
{
    return x < 0 ? -x : x;
}

static bool same_line(struct part a, struct part b)
{
    double x, y;

    if (a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0)
        return true;
    return as_number(a, &x) && as_number(b, &y) &&
           size(x - y) <= NEAR * (size(x) > size(y) ? size(x) : size(y));
}

/* As many lines, and each the same but for case and space, or numbers that are near. */
static bool is_right(const struct str *printed, const char *expected)
{
    struct part a =
        strip((struct part){ printed->data ? printed->data : "", printed->len });
    struct part b = strip((struct part){ expected, strlen(expected) });

    while (a.len > 0 && b.len > 0)
        if (!same_line(next_line(&a), next_line(&b)))
            return false;
    return a.len == 0 && b.len == 0;
}

static const char *text_at(json_t *test, const char *outer, const char *inner)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(test, outer), inner));

    return text ? text : "";
}

static int run_test(struct judging *s, json_t *test, struct outcome *out,
                    struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    const char *input = text_at(test, "input", "stdin");
    struct program p = { .call = s->call, .cancel_fd = web_gone_fd(s->call->web) };
    json_t *asked = json_object_get(s->config, "run_timeout");
    int64_t usual_s = COMPILED_S;

    p.compile.timeout_ms =
        fusion_ms(json_object_get(s->config, "compile_timeout"), COMPILED_S);
    if (wires_request(s->entry, s->code.data ? s->code.data : "", s->code.len, &req,
                      err) < 0)
        return -1;
    if (!inside_compiles(s->call->gen->engine, req))
        usual_s = INTERPRETED_S;
    if (program_limit(req, FIELD_ID_timeout, fusion_ms(asked, usual_s), err) < 0 ||
        vial_request_set_bytes(req, "stdin", input, strlen(input), err) < 0)
        return -1;
    p.req = req;
    return program_run(&p, out, err);
}

static bool judge(const struct outcome *o, json_t *test)
{
    return o->run.there && o->run.verdict == VIAL_OK &&
           is_right(&o->run.out, text_at(test, "output", "stdout"));
}

static bool same_text(const struct str *a, const struct str *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* What O is told as: what its compiler said is kept once, as the first one's. */
static struct outcome with_compile(struct outcome *o, const struct outcome *first)
{
    struct outcome told = *o;

    if (o == first || !o->compile.there ||
        o->compile.verdict != first->compile.verdict ||
        !same_text(&o->compile.out, &first->compile.out) ||
        !same_text(&o->compile.err, &first->compile.err))
        return told;
    stage_done(&o->compile);
    told.compile = first->compile;
    return told;
}

/* -1: one of them could not be run, and nothing is known. */
static int run_tests(struct judging *s, json_t *told, bool *accepted,
                     struct vial_error *err)
{
    bool all = json_is_true(
        json_object_get(json_object_get(s->config, "extra"), "run_all_cases"));
    size_t count = json_array_size(s->tests);

    *accepted = true;
    for (size_t i = 0; i < count && (all || *accepted); i++) {
        json_t *test = json_array_get(s->tests, i);
        struct outcome one;
        bool passed;

        if (run_test(s, test, &s->outcomes[i], err) < 0)
            return -1;
        passed = judge(&s->outcomes[i], test);
        *accepted = *accepted && passed;
        one = with_compile(&s->outcomes[i], &s->outcomes[0]);
        (void)json_array_append_new(
            told, json_pack("{s:b, s:o, s:O}", "passed", (int)passed, "exec_info",
                            fusion_outcome(&s->answer, &one, NULL), "test_info", test));
    }
    return 0;
}

static void answer(struct judging *s)
{
    struct call *c = s->call;
    json_t *id = json_object_get(c->body, "id");
    json_t *told = json_array();
    struct vial_error err = { 0 };
    bool accepted = false;

    if (run_tests(s, told, &accepted, &err) < 0) {
        json_decref(told);
        json_larges_done(&s->answer.larges);
        fusion_not_run(c, &err);
        return;
    }
    fusion_send(c, &s->answer,
                json_pack("{s:O*, s:b, s:s%, s:n, s:n, s:o, s:n, s:n}", "id", id,
                          "accepted", (int)accepted, "extracted_code",
                          s->code.data ? s->code.data : "", s->code.len, "full_code",
                          "test_code", "tests", told, "extracted_type", "extra"));
}

/* The tests, as a list; they may come as a text that is one. */
static int read_tests(struct judging *s, struct vial_error *err)
{
    json_t *given =
        json_object_get(json_object_get(s->config, "provided_data"), "test");

    if (json_is_string(given)) {
        if (json_parse(json_string_value(given), json_string_length(given),
                       "provided_data.test", &s->tests, err) < 0)
            return -1;
    } else {
        s->tests = json_incref(given);
    }
    if (!json_is_array(s->tests) || json_array_size(s->tests) > TESTS_MOST)
        return fail(err, VIAL_E_VALUE, "provided_data.test is not a list of tests");
    s->outcomes = calloc(json_array_size(s->tests) + 1, sizeof(*s->outcomes));
    return s->outcomes ? 0 : fail_memory(err);
}

static int read_config(struct judging *s, struct vial_error *err)
{
    s->language = json_string_value(json_object_get(s->config, "language"));
    if (!s->language)
        return fail(err, VIAL_E_VALUE, "language field required in config");
    if (json_is_string(json_object_get(s->config, "custom_extract_logic")))
        return fail(err, VIAL_E_VALUE,
                    "custom_extract_logic is not run: it would run in the server");
    s->entry =
        wires_language(s->call->serve->wires, face_sandboxfusion.name, s->language);
    if (!s->entry)
        return fail(err, VIAL_E_VALUE, "language '%.60s' is not known", s->language);
    return read_tests(s, err);
}

static void release(struct judging *s)
{
    for (size_t i = 0; s->outcomes && i < json_array_size(s->tests); i++)
        outcome_done(&s->outcomes[i]);
    free(s->outcomes);
    json_decref(s->tests);
    str_done(&s->code);
}

void common_oj_submit(struct call *c)
{
    struct judging s = { .call = c, .config = json_object_get(c->body, "config") };
    struct vial_error err = { 0 };

    if (read_config(&s, &err) < 0) {
        face_refuse(c, &face_sandboxfusion, &err);
    } else {
        extract(&s, json_string_value(json_object_get(c->body, "completion")));
        answer(&s);
    }
    release(&s);
}
