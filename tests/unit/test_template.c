/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/json.h"
#include "check.h"
#include "template/build_context.h"
#include "template/build_state.h"
#include "template/template.h"
#include "template/words.h"

/* A template's instructions, one a line: "LINE WORD text"; or why there are none. */
static char *shown(const char *text, const char *name)
{
    struct template t = { 0 };
    struct vial_error err = { 0 };
    struct str out = { 0 };

    if (template_parse(text, strlen(text), name, &t, &err) < 0)
        return strdup(check_text(&err));
    str_printf(&out, "%u FROM %s\n", t.from_line, t.from);
    for (size_t i = 0; i < t.count; i++)
        str_printf(&out, "%u %s%s %s\n", t.steps[i].line,
                   template_word(t.steps[i].kind), t.steps[i].words.count ? "[]" : "",
                   t.steps[i].text);
    for (size_t i = 0; i < t.allow.count; i++)
        str_printf(&out, "allow %s\n", t.allow.items[i]);
    for (size_t i = 0; i < t.wanted.count; i++)
        str_printf(&out, "wants %s\n", t.wanted.items[i]);
    for (size_t i = 0; i < t.imports.count; i++)
        str_printf(&out, "import %s\n", t.imports.items[i]);
    if (t.pool)
        str_printf(&out, "pool %u\n", t.pool);
    template_done(&t);
    return str_take(&out);
}

static void check(const char *text, const char *name, const char *want)
{
    auto_free char *got = shown(text, name);

    assert_string_equal(got, want);
}

static void a_dockerfile_becomes_instructions_with_their_lines(void **state)
{
    (void)state;
    check("# syntax=docker/dockerfile:1\n\nFROM debian:12\n"
          "run apt-get update && \\\n    # a comment in between\n\n    apt-get clean\n"
          "RUN [\"/bin/true\", \"a b\"]\n  ENV A=b\n",
          "Dockerfile",
          "3 FROM debian:12\n"
          "4 RUN apt-get update &&     apt-get clean\n"
          "8 RUN[] [\"/bin/true\", \"a b\"]\n"
          "9 ENV A=b\n");
}

static void the_yaml_becomes_the_same_instructions(void **state)
{
    (void)state;
    check(
        "from: debian\npackages:\n  apt: [curl, git]\n  pip: ['numpy>=1']\n"
        "env:\n  P: '/x:$PATH'\nworkdir: /app\ncopy:\n  - src/ /app/\n"
        "run:\n  - make\n  - [a, b c]\nuser: joe\ncmd: [serve]\n"
        "network: [example.com]\nimports: [numpy, os.path]\npool: 4\n",
        "t.yaml",
        "1 FROM debian\n"
        "6 ENV P=\"/x:$PATH\"\n"
        "3 RUN export DEBIAN_FRONTEND=noninteractive; apt-get update && apt-get "
        "install -y --no-install-recommends 'curl' 'git' && rm -rf "
        "/var/lib/apt/lists/*\n"
        "4 RUN PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip "
        "install --no-input --no-cache-dir 'numpy>=1'\n"
        "7 WORKDIR \"/app\"\n"
        "9 COPY src/ /app/\n"
        "11 RUN make\n"
        "12 RUN[] [\"a\",\"b c\"]\n"
        "13 USER \"joe\"\n"
        "14 CMD[] [\"serve\"]\n"
        "allow debian\nallow python-packages\nwants example.com\n"
        "import numpy\nimport os.path\npool 4\n");
}

static void what_is_not_supported_is_refused_by_line(void **state)
{
    static const char *const cases[][3] = {
        { "Dockerfile", "FROM a\n\nADD x y\n",
          "line 3: instruction 'ADD' is not supported" },
        { "Dockerfile", "FROM a\nHEALTHCHECK NONE\n",
          "line 2: instruction 'HEALTHCHECK' is not supported" },
        { "Dockerfile", "FROM a\nFROM b\n",
          "line 2: a second FROM: a template has one stage" },
        { "Dockerfile", "FROM a AS b\n",
          "line 1: FROM takes the name of an image alone" },
        { "Dockerfile", "RUN x\n", "line 1: FROM comes first" },
        { "Dockerfile", "FROM a\nRUN --mount=type=x y\n",
          "line 2: RUN has no flags here: '--mount=type=x y'" },
        { "Dockerfile", "FROM a\nCOPY --from=b c d\n",
          "line 2: COPY has no flags here: '--from=b c d'" },
        { "Dockerfile", "FROM a\nRUN cat <<EOF\nx\nEOF\n",
          "line 2: a text within the file ('<<') is not supported" },
        { "Dockerfile", "FROM a\nCOPY x\n",
          "line 2: it needs what to copy, and where to" },
        { "Dockerfile", "FROM a\nENV \"A=b\n", "line 2: a quote is not closed" },
        { "Dockerfile", "FROM a\nENV 1A=b\n", "line 2: it is not NAME=VALUE" },
        { "Dockerfile", "FROM a\nUSER a b\n", "line 2: it takes one word" },
        { "Dockerfile", "FROM a\nEXPOSE 0\n", "line 2: it is not a port" },
        { "Dockerfile", "FROM a\nRUN\n", "line 2: it says nothing" },
        { "Dockerfile", "# nothing\n", "it names no base image" },
        { "t.yaml", "from: a\nrun:\n  - x\n  - 7\n",
          "line 4: it is neither a line for a shell nor a list of words" },
        { "t.yaml", "from: a\npackages:\n  apt: ['x; y']\n",
          "line 2: 'x; y' names no package" },
        { "t.yaml", "from: a\npackages:\n  apt: ['-y']\n",
          "line 2: '-y' names no package" },
        { "t.yaml", "from: a\npool: 65\n", "line 2: pool is at most 64" },
        { "t.yaml", "from: a\nimports: ['x y']\n",
          "line 2: 'x y' is not a module's name, or one too many" },
        { "t.yaml", "from: a\nnetwork: ['x;y']\n", "line 2: 'x;y' cannot be reached" },
        { "t.yaml", "from: a\nnetwork: ['-x']\n", "line 2: '-x' cannot be reached" },
        { "t.yaml", "- a\n", "it is not a list of keys" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        auto_str struct str want = { 0 };

        str_printf(&want, "VIAL-TEMPLATE template '%s': %s", cases[i][0], cases[i][2]);
        check(cases[i][1], cases[i][0], want.data);
    }
    check("from: a\nstart: {command: x}\n", "t.yaml",
          "VIAL-UNSUPPORTED template 't.yaml': key 'start' is not supported yet: no "
          "vessel begins with a program that has run");
}

static void an_unknown_key_is_refused(void **state)
{
    auto_free char *got = shown("from: a\nrunn: [x]\n", "t.yaml");

    (void)state;
    assert_non_null(strstr(got, "runn"));
    assert_int_equal(strncmp(got, "VIAL-", 5), 0);
}

static void a_template_that_is_too_long_is_refused(void **state)
{
    auto_free char *text = malloc(TEMPLATE_BYTES + 2);

    (void)state;
    memset(text, '#', TEMPLATE_BYTES + 1);
    text[TEMPLATE_BYTES + 1] = '\0';
    check(text, "Dockerfile",
          "VIAL-TEMPLATE template 'Dockerfile': it is longer than 64 KiB");
}

/* Words with "|" behind each, or the error. */
static void check_split(const char *text, const char *want)
{
    auto_strv struct strv variables = { 0 };
    auto_strv struct strv words = { 0 };
    auto_str struct str got = { 0 };
    struct vial_error err = { 0 };

    strv_push(&variables, "A=one two");
    strv_push(&variables, "E=");
    if (words_split(text, &variables, &words, &err) < 0)
        str_puts(&got, err.message);
    else
        for (size_t i = 0; i < words.count; i++)
            str_printf(&got, "%s|", words.items[i]);
    assert_string_equal(got.data ? got.data : "", want);
}

static void words_have_quotes_escapes_and_variables(void **state)
{
    (void)state;
    check_split("a  b\tc", "a|b|c|");
    check_split("'a b' \"c $A\" d\\ e", "a b|c one two|d e|");
    check_split("'$A' \"\\$A\" \\$A", "$A|$A|$A|");
    check_split("x${A}y $A", "xone twoy|one two|");
    check_split("${N:-else} ${E:-else} ${A:-else}", "else|else|one two|");
    check_split("${N:+set} ${A:+set}", "|set|");
    check_split("$ a$", "$|a$|");
    check_split("\"\" ''", "||");
    check_split("${A", "'${' without a name and '}'");
    check_split("${A%x}", "'${' knows ':-' and ':+' alone");
    check_split("\"a", "a quote is not closed");
}

static void what_is_quoted_comes_back_as_it_was(void **state)
{
    static const char text[] = "a \"b\" $C \\d 'e'";
    auto_str struct str quoted = { 0 };

    (void)state;
    words_quote(&quoted, text);
    {
        struct vial_error err = { 0 };
        auto_free char *back = words_expand(quoted.data, NULL, &err);

        assert_string_equal(back, text);
    }
}

/* A directory with what the tests below copy. */
static char *make_context(void)
{
    char *dir = strdup("/tmp/vial-template-XXXXXX");
    char line[256];

    assert_non_null(mkdtemp(dir));
    (void)snprintf(
        line, sizeof(line),
        "cd %s && mkdir -p src/deep out && echo a > src/a.c && echo b > "
        "src/deep/b.c && echo o > out/o && ln -s /etc/passwd link && ln -s a.c "
        "src/inner && echo k > keep.log && echo l > lose.log",
        dir);
    assert_int_equal(system(line), 0); /* NOLINT */
    return dir;
}

static void drop_context(char *dir)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "rm -r %s", dir);
    assert_int_equal(system(line), 0); /* NOLINT */
    free(dir);
}

/* What SOURCE picks: "type name" each with "|" behind, or the error. */
static void check_pick(const struct context *c, const char *source, const char *want)
{
    auto_picks struct picks p = { 0 };
    auto_str struct str got = { 0 };
    struct vial_error err = { 0 };

    if (context_pick(c, source, &p, &err) < 0)
        str_puts(&got, err.message);
    for (size_t i = 0; !err.code[0] && i < p.count; i++)
        str_printf(&got, "%c %s|", p.items[i].entry->type, p.items[i].below);
    assert_string_equal(got.data ? got.data : "", want);
}

static void copies_come_from_the_context_alone(void **state)
{
    auto_context struct context c = CONTEXT_NONE;
    struct vial_error err = { 0 };
    char *dir = make_context();

    (void)state;
    assert_int_equal(context_open(dir, &c, &err), 0);
    check_pick(&c, "src", "f a.c|d deep|f deep/b.c|l inner|");
    check_pick(&c, "./src/", "f a.c|d deep|f deep/b.c|l inner|");
    check_pick(&c, "src/a.c", "f a.c|");
    check_pick(&c, "*.log", "f keep.log|f lose.log|");
    check_pick(&c, "../x", "'../x' does not lie in the context");
    check_pick(&c, "src/../../x", "'src/../../x' does not lie in the context");
    check_pick(&c, "/etc/passwd", "'/etc/passwd' does not lie in the context");
    check_pick(&c, "link", "'link' is a link, which is not followed");
    check_pick(&c, "nothing", "the context has no 'nothing'");
    drop_context(dir);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    auto_fd int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
}

static void ignored_files_are_not_in_the_context(void **state)
{
    auto_context struct context c = CONTEXT_NONE;
    struct vial_error err = { 0 };
    char *dir = make_context();

    (void)state;
    write_file(dir, ".vialignore",
               "# logs\n*.log\n!keep.log\n/out/\n**/b.c\n.vialignore\n");
    assert_int_equal(context_open(dir, &c, &err), 0);
    check_pick(&c, ".", "f keep.log|l link|d src|f src/a.c|d src/deep|l src/inner|");
    check_pick(&c, "lose.log", "the context has no 'lose.log'");
    drop_context(dir);
}

static void a_pattern_that_is_not_understood_is_refused(void **state)
{
    auto_context struct context c = CONTEXT_NONE;
    struct vial_error err = { 0 };
    char *dir = make_context();

    (void)state;
    write_file(dir, ".dockerignore", "a\nx/**/y\n");
    assert_int_equal(context_open(dir, &c, &err), -1);
    assert_error(&err,
                 "VIAL-TEMPLATE line 2 of '.dockerignore': '**' stands at the begin "
                 "of a pattern alone");
    drop_context(dir);
}

static void a_nul_among_patterns_is_refused(void **state)
{
    static const char text[] = "out\n\0lose.log\n";
    auto_context struct context c = CONTEXT_NONE;
    struct vial_error err = { 0 };
    char *dir = make_context();
    auto_free char *path = NULL;
    auto_fd int fd = -1;

    (void)state;
    assert_true(asprintf(&path, "%s/.vialignore", dir) > 0);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(io_write_all(fd, text, sizeof(text) - 1), 0);
    assert_int_equal(context_open(dir, &c, &err), -1);
    assert_error(&err, "VIAL-TEMPLATE '.vialignore' has a NUL in it: it is not text");
    drop_context(dir);
}

/* Opens out/o of DIR after CHANGE, a line for a shell there. */
static int read_after(const char *dir, const char *change, struct vial_error *err)
{
    auto_context struct context c = CONTEXT_NONE;
    auto_picks struct picks p = { 0 };
    auto_free char *line = NULL;

    assert_int_equal(context_open(dir, &c, err), 0);
    assert_int_equal(context_pick(&c, "out/o", &p, err), 0);
    assert_true(asprintf(&line, "cd %s && %s", dir, change) > 0);
    assert_int_equal(system(line), 0); /* NOLINT */
    return context_read(&c, p.items[0].entry, err);
}

static void a_file_that_is_not_what_was_listed_is_not_read(void **state)
{
    static const char changed[] =
        "VIAL-TEMPLATE 'out/o' has changed while it was built";
    struct vial_error err = { 0 };
    char *dir = make_context();
    auto_fd int fd = read_after(dir, "true", &err);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(read_after(dir, "echo more >> out/o", &err), -1);
    assert_error(&err, changed);
    assert_int_equal(read_after(dir, "cp -p out/o x && mv x out/o", &err), -1);
    assert_error(&err, changed);
    assert_int_equal(read_after(dir, "chmod 777 out/o", &err), -1);
    assert_error(&err, changed);
    drop_context(dir);
}

/* The very file that was listed, but by way of a link. */
static void no_link_in_the_middle_of_a_path_is_followed(void **state)
{
    struct vial_error err = { 0 };
    char *dir = make_context();

    (void)state;
    assert_int_equal(read_after(dir, "mv out other && ln -s other out", &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_non_null(strstr(err.message, "read 'out/o' of the context"));
    drop_context(dir);
}

/* Takes the instructions of TEXT, which need no vessel, into a build that holds ENV and
 * the config's command as "ENV|…|COMMAND"; or why not. */
static void check_plain(const char *text, const char *want)
{
    auto_template struct template t = { 0 };
    auto_strv struct strv none = { 0 };
    const struct build_order order = { .args = &none };
    struct build b = { .order = &order, .config = json_object() };
    struct vial_error err = { 0 };
    auto_str struct str got = { 0 };
    auto_free char *command = NULL;

    assert_int_equal(template_parse(text, strlen(text), "Dockerfile", &t, &err), 0);
    for (size_t i = 0; i < t.count && !err.code[0]; i++)
        (void)step_plain(&b, &t.steps[i], &err);
    for (size_t i = 0; i < b.env.count; i++)
        str_printf(&got, "%s|", b.env.items[i]);
    command = json_dumps(json_object_get(b.config, "Cmd"), JSON_COMPACT);
    str_puts(&got, err.code[0] ? err.message : command ? command : "");
    assert_string_equal(got.data ? got.data : "", want);
    strv_done(&b.env);
    strv_done(&b.args);
    json_decref(b.config);
}

static void variables_cannot_make_a_pair_that_is_none(void **state)
{
    (void)state;
    check_plain("FROM a\nARG X=foo\nENV A=${X:-1}\n", "A=foo|");
    check_plain("FROM a\nARG X=foo\nENV A${X:-=1}\n", "'Afoo' is not NAME=VALUE");
    check_plain("FROM a\nARG X=b=c\nENV X${X:-=1}=\n", "Xb=c=|");
    check_plain("FROM a\nARG X=-\nENV A${X:-=1}=2\n", "'A-=2' is not NAME=VALUE");
    check_plain("FROM a\nARG X=-\nARG A${X:-=1}=2\n", "'A-=2' is not NAME=VALUE");
}

static void a_command_is_words_or_a_line_for_a_shell(void **state)
{
    (void)state;
    check_plain("FROM a\nCMD one two\n", "[\"/bin/sh\",\"-c\",\"one two\"]");
    check_plain("FROM a\nCMD [\"one\"]\n", "[\"one\"]");
    check_plain("FROM a\nCMD []\n", "[]");
}

static void digest_of(const char *dir, const char *source, char out[65])
{
    auto_context struct context c = CONTEXT_NONE;
    auto_picks struct picks p = { 0 };
    struct vial_error err = { 0 };

    assert_int_equal(context_open(dir, &c, &err), 0);
    assert_int_equal(context_pick(&c, source, &p, &err), 0);
    assert_int_equal(picks_digest(&c, &p, out, &err), 0);
}

static void a_digest_tells_bytes_modes_and_names_apart(void **state)
{
    char *dir = make_context();
    char before[65];
    char after[65];
    char path[128];

    (void)state;
    digest_of(dir, "src", before);
    write_file(dir, "out/o", "other");
    digest_of(dir, "src", after);
    assert_string_equal(before, after);
    write_file(dir, "src/a.c", "b\n");
    digest_of(dir, "src", after);
    assert_string_not_equal(before, after);
    write_file(dir, "src/a.c", "a\n");
    digest_of(dir, "src", after);
    assert_string_equal(before, after);
    (void)snprintf(path, sizeof(path), "%s/src/a.c", dir);
    assert_int_equal(chmod(path, 0755), 0);
    digest_of(dir, "src", after);
    assert_string_not_equal(before, after);
    drop_context(dir);
}

static void a_value_of_yaml_has_its_line(void **state)
{
    static const char text[] = "a: 1\nb:\n  - x\n  - y: 2\nc:\n  d: e\n";

    (void)state;
    assert_int_equal(yaml_line(text, strlen(text), "a"), 1);
    assert_int_equal(yaml_line(text, strlen(text), "b/1"), 4);
    assert_int_equal(yaml_line(text, strlen(text), "c/d"), 6);
    assert_int_equal(yaml_line(text, strlen(text), "c/z"), 5);
    assert_int_equal(yaml_line(text, strlen(text), "b/9"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dockerfile_becomes_instructions_with_their_lines),
        cmocka_unit_test(the_yaml_becomes_the_same_instructions),
        cmocka_unit_test(what_is_not_supported_is_refused_by_line),
        cmocka_unit_test(an_unknown_key_is_refused),
        cmocka_unit_test(a_template_that_is_too_long_is_refused),
        cmocka_unit_test(words_have_quotes_escapes_and_variables),
        cmocka_unit_test(what_is_quoted_comes_back_as_it_was),
        cmocka_unit_test(copies_come_from_the_context_alone),
        cmocka_unit_test(ignored_files_are_not_in_the_context),
        cmocka_unit_test(a_pattern_that_is_not_understood_is_refused),
        cmocka_unit_test(a_nul_among_patterns_is_refused),
        cmocka_unit_test(a_file_that_is_not_what_was_listed_is_not_read),
        cmocka_unit_test(no_link_in_the_middle_of_a_path_is_followed),
        cmocka_unit_test(variables_cannot_make_a_pair_that_is_none),
        cmocka_unit_test(a_command_is_words_or_a_line_for_a_shell),
        cmocka_unit_test(a_digest_tells_bytes_modes_and_names_apart),
        cmocka_unit_test(a_value_of_yaml_has_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
