/* SPDX-License-Identifier: Apache-2.0 */
#include "model/language.h"
#include "model_case.h"

static const char base[] = "python: {file: main.py, run: [python3, '{file}'], aliases: "
                           "[py], env: {A: '1'}, limits: {memory: 1g}}\n"
                           "bash: {file: main.sh, run: [bash, '{file}']}\n";

static int add_text(struct language_table *t, const char *text, struct vial_error *err)
{
    return language_table_read(t, text, strlen(text), "test", err);
}

static struct language_table table(void)
{
    struct language_table t = { 0 };
    struct vial_error err = { 0 };

    if (add_text(&t, base, &err) < 0)
        fail_msg("%s", err.message);
    return t;
}

static void assert_bad(const char *text, const char *code, const char *message)
{
    struct language_table t = table();
    struct vial_error err = { 0 };

    assert_int_equal(add_text(&t, text, &err), -1);
    assert_string_equal(err.message, message);
    assert_string_equal(err.code, code);
    language_table_done(&t);
}

static void a_language_is_found_by_name_or_alias_in_any_case(void **state)
{
    struct language_table t = table();
    const struct language *found = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(language_find(&t, "Python", &found, &err), 0);
    assert_string_equal(found->name, "python");
    assert_int_equal(language_find(&t, "PY", &found, &err), 0);
    assert_string_equal(found->name, "python");
    assert_true(found->limits.memory_bytes == 1 << 30);
    language_table_done(&t);
}

static void an_unknown_language_names_the_known_ones(void **state)
{
    struct language_table t = table();
    struct language_table empty = { 0 };
    const struct language *found = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(language_find(&t, "pyhton", &found, &err), -1);
    assert_string_equal(err.code, "VIAL-LANGUAGE");
    assert_string_equal(err.message, "unknown language 'pyhton'; known: python, bash");
    assert_string_equal(err.remedy, "did you mean 'python'?");
    assert_int_equal(language_find(&t, "brainfuck", &found, &err), -1);
    assert_string_equal(err.remedy, "`vial languages` lists them with their aliases");
    assert_int_equal(language_find(&empty, "x", &found, &err), -1);
    assert_string_equal(err.message, "unknown language 'x'; known: none");
    language_table_done(&t);
}

static void a_second_file_replaces_by_name_and_adds(void **state)
{
    struct language_table t = table();
    const struct language *found = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(add_text(&t,
                              "{\"bash\": {\"file\": \"x\", \"run\": [\"zsh\"]},"
                              " \"zig\": {\"file\": \"m.zig\", \"run\": [\"zig\"], "
                              "\"aliases\": [\"py\"]}}",
                              &err),
                     0);
    assert_int_equal(t.count, 3);
    assert_int_equal(language_find(&t, "bash", &found, &err), 0);
    assert_string_equal(found->run_argv.items[0], "zsh");
    assert_int_equal(language_find(&t, "py", &found, &err), 0);
    assert_string_equal(found->name, "zig");
    language_table_done(&t);
}

static void like_copies_a_language_but_not_its_aliases(void **state)
{
    struct language_table t = table();
    const struct language *found = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(
        add_text(&t, "python9: {like: python, run: [python9, '{file}']}", &err), 0);
    assert_int_equal(language_find(&t, "python9", &found, &err), 0);
    assert_string_equal(found->file, "main.py");
    assert_int_equal(found->run_argv.count, 2);
    assert_string_equal(found->run_argv.items[0], "python9");
    assert_string_equal(found->env.items[0], "A=1");
    assert_true(found->limits.memory_bytes == 1 << 30);
    assert_int_equal(found->aliases.count, 0);
    language_table_done(&t);
}

static void a_bad_entry_is_refused_with_its_name(void **state)
{
    (void)state;
    assert_bad("zig: {run: [zig]}", "VIAL-VALUE",
               "test: language 'zig': file is not a plain relative path");
    assert_bad("zig: {file: ../x, run: [zig]}", "VIAL-VALUE",
               "test: language 'zig': file is not a plain relative path");
    assert_bad("zig: {file: x}", "VIAL-VALUE",
               "test: language 'zig': run does not name a program");
    assert_bad("zig: {file: x, runn: [a]}", "VIAL-FIELD",
               "test: language 'zig': unknown key 'runn'");
    assert_bad("zig: {file: x, run: [a], limits: {memry: 1}}", "VIAL-FIELD",
               "test: language 'zig': unknown key 'memry'");
    assert_bad("zig: {file: x, run: [a], limits: []}", "VIAL-VALUE",
               "test: language 'zig': limits is not an object");
    assert_bad("zig: {file: x, run: [a], limits: {memory: 1}}", "VIAL-VALUE",
               "test: language 'zig': memory '1' is not a size from 4m to 1t");
    assert_bad("zig: {like: nothing}", "VIAL-LANGUAGE",
               "test: language 'zig': like 'nothing' names no language above it");
    assert_bad("zig: 7", "VIAL-VALUE",
               "test: language 'zig': the entry is not an object");
    assert_bad("'A/B': {}", "VIAL-VALUE",
               "test: language 'A/B': the name may have a-z, 0-9 and + # . _ - and 64 "
               "bytes");
    assert_bad("[]", "VIAL-VALUE", "test: not an object of languages");
    assert_bad(
        "{", "VIAL-JSON",
        "parse 'test': line 1, column 1: string or '}' expected near end of file");
}

static void a_table_cannot_grow_for_ever(void **state)
{
    struct language_table t = { 0 };
    struct vial_error err = { 0 };
    struct str text = { 0 };

    (void)state;
    for (int i = 0; i < 513; i++)
        str_printf(&text, "l%d: {file: x, run: [x]}\n", i);
    assert_true(str_ok(&text));
    assert_int_equal(add_text(&t, text.data, &err), -1);
    assert_string_equal(err.message, "test: language 'l512': more than 512 languages");
    str_done(&text);
    language_table_done(&t);
}

static void a_missing_file_is_an_error_that_names_it(void **state)
{
    struct language_table t = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(language_table_load(&t, "/nowhere/l.yaml", &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_string_equal(err.message, "read '/nowhere/l.yaml'");
}

static void the_built_in_table_knows_the_usual_languages(void **state)
{
    static const char *const names[] = {
        "python", "bash",   "sh",         "node", "typescript", "perl",   "ruby",
        "lua",    "php",    "r",          "c",    "c++",        "go",     "rust",
        "java",   "py",     "python3",    "js",   "javascript", "nodejs", "nodejs18",
        "ts",     "golang", "python3.10", "cpp",  "rs",         "R"
    };
    struct language_table t = { 0 };
    struct vial_error err = { 0 };
    char path[4096];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/runtimes/languages.yaml", share_dir());
    if (language_table_load(&t, path, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct language *found = NULL;

        if (language_find(&t, names[i], &found, &err) < 0)
            fail_msg("%s", err.message);
        assert_true(found->version_argv.count > 0);
        assert_non_null(found->image);
    }
    language_table_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_language_is_found_by_name_or_alias_in_any_case),
        cmocka_unit_test(an_unknown_language_names_the_known_ones),
        cmocka_unit_test(a_second_file_replaces_by_name_and_adds),
        cmocka_unit_test(like_copies_a_language_but_not_its_aliases),
        cmocka_unit_test(a_bad_entry_is_refused_with_its_name),
        cmocka_unit_test(a_table_cannot_grow_for_ever),
        cmocka_unit_test(a_missing_file_is_an_error_that_names_it),
        cmocka_unit_test(the_built_in_table_knows_the_usual_languages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
