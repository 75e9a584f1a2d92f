/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>

#include "model_case.h"
#include "settings/project.h"
#include "settings/settings.h"
#include "settings/trust.h"

/* A project with a repository around it, and a state directory beside it. */
struct desk {
    char project[96], state[96], file[128];
    struct settings_sources from;
};

static void open_desk(struct scratch *scratch, struct desk *d)
{
    (void)snprintf(d->project, sizeof(d->project), "%s",
                   scratch_dir(scratch, "project"));
    (void)snprintf(d->state, sizeof(d->state), "%s", scratch_path(scratch, "state"));
    (void)snprintf(d->file, sizeof(d->file), "%s/vial.yaml", d->project);
    (void)scratch_dir(scratch, "project/.git");
    d->from = bare_sources(scratch);
    d->from.project_dir = d->project;
    d->from.state = d->state;
}

static int try_load(struct desk *d, struct settings **out, struct vial_error *err)
{
    *out = NULL;
    return settings_load(&d->from, out, err);
}

/* As `vial trust` does it. */
static void trust_it(struct desk *d)
{
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    json_t *one = NULL;
    auto_json json_t *sets = json_pack("{s:s}", "memory", "1g");

    d->from.trusting = true;
    assert_int_equal(try_load(d, &s, &err), 0);
    d->from.trusting = false;
    one = json_array_get(s->projects, 0);
    assert_string_equal(json_string_value(json_object_get(one, "path")), d->file);
    assert_int_equal(trust_write(d->state, d->file,
                                 json_string_value(json_object_get(one, "sha256")),
                                 sets, &err),
                     0);
    settings_free(s);
}

static void a_trusted_file_may_set_what_the_policy_allows(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml",
                        "defaults: {memory: 1g, network: bridge}\n"
                        "policy: {max_timeout: 23h}");
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_string_equal(err.code, "VIAL-TRUST");
    trust_it(&d);
    assert_int_equal(try_load(&d, &s, &err), 0);
    assert_true(s->defaults.memory == 1 << 30);
    assert_true(s->policy.max_timeout == 3600000); /* it is no operator */
    settings_free(s);
}

static void one_changed_byte_makes_a_stranger_of_it(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 1g}");
    trust_it(&d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 2g}");
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_non_null(strstr(err.message,
                           "has changed since you trusted it, and would now "
                           "change memory from 1g to 2g"));
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 1g} ");
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_non_null(strstr(err.message, "though not in what it changes"));
    /* What needs no trust is not asked for it. */
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 9m}");
    assert_int_equal(try_load(&d, &s, &err), 0);
    settings_free(s);
}

static void trust_is_bound_to_the_path(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    char other[96];

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 1g}");
    trust_it(&d);
    (void)snprintf(other, sizeof(other), "%s", scratch_dir(*state, "other"));
    (void)scratch_write(*state, "other/vial.yaml", "defaults: {memory: 1g}");
    d.from.project_dir = other;
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_string_equal(err.code, "VIAL-TRUST");
}

static void other_files_and_the_operators_keys_are_never_the_projects(void **state)
{
    static const char *const texts[] = { "languages: mine.yaml", "audit: {path: /x}",
                                         "cleanup: {interval: 0}", "serve: {}" };
    struct desk d;

    open_desk(*state, &d);
    d.from.trusting = true;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct settings *s = NULL;
        struct vial_error err = { 0 };

        (void)scratch_write(*state, "project/vial.yaml", texts[i]);
        assert_int_equal(try_load(&d, &s, &err), -1);
        assert_string_equal(err.code, "VIAL-POLICY");
    }
}

/* The record's file, or the directory, as somebody else could have left it. */
static void records_that_others_could_have_written_are_not_believed(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    auto_json json_t *before = NULL;
    char dir[128];

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 1g}");
    trust_it(&d);
    before = trust_find(d.state, d.file);
    assert_non_null(before);
    (void)snprintf(dir, sizeof(dir), "%s/trust", d.state);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_null(trust_find(d.state, d.file));
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(try_load(&d, &s, &err), 0);
    settings_free(s);
    assert_int_equal(chmod(d.state, 0770), 0);
    assert_null(trust_find(d.state, d.file));
    assert_int_equal(trust_write(d.state, d.file, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.message, "can be written by others"));
}

static const char *only_record(struct scratch *scratch, const struct desk *d)
{
    static char path[512];
    DIR *dir = opendir(scratch_path(scratch, "state/trust"));
    const struct dirent *e = NULL;

    assert_non_null(dir);
    while ((e = readdir(dir))) /* NOLINT(concurrency-mt-unsafe) */
        if (e->d_name[0] != '.')
            (void)snprintf(path, sizeof(path), "%s/trust/%s", d->state, e->d_name);
    (void)closedir(dir);
    return path;
}

static void hostile_records_are_passed_over(void **state)
{
    static const char *const texts[] = {
        "", "[]", "{", "{\"path\": 1}", "{\"path\": \"/elsewhere\", \"sha256\": \"x\"}"
    };
    struct desk d;
    auto_json json_t *list = NULL;
    struct vial_error err = { 0 };
    struct stat st;
    const char *record = NULL;

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {memory: 1g}");
    trust_it(&d);
    record = only_record(*state, &d);
    assert_int_equal(stat(record, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FILE *file = fopen(record, "we");

        assert_non_null(file);
        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_null(trust_find(d.state, d.file));
    }
    assert_int_equal(unlink(record), 0);
    assert_int_equal(mkfifo(record, 0600), 0);
    assert_null(trust_find(d.state, d.file));
    assert_int_equal(trust_list(d.state, &list, &err), 0);
    assert_int_equal(json_array_size(list), 0);
    trust_it(&d); /* writes over it */
    assert_int_equal(trust_remove(d.state, d.file, &err), 1);
    assert_int_equal(trust_remove(d.state, d.file, &err), 0);
}

static void a_file_is_found_from_below_it_in_its_repository(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    char below[128];

    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {pids: 3}");
    (void)scratch_write(*state, "vial.yaml", "defaults: {pids: 2}");
    (void)scratch_dir(*state, "project/a");
    (void)snprintf(below, sizeof(below), "%s", scratch_dir(*state, "project/a/b"));
    d.from.project_dir = below;
    assert_int_equal(try_load(&d, &s, &err), 0);
    assert_true(s->defaults.pids == 3); /* the repository's, and not what is above it */
    assert_string_equal(s->origin[FIELD_ID_pids], d.file);
    settings_free(s);
    (void)scratch_write(*state, "project/a/vial.yaml", "defaults: {pids: 4}");
    assert_int_equal(try_load(&d, &s, &err), 0);
    assert_true(s->defaults.pids == 4); /* the nearest */
    settings_free(s);
}

static void a_directory_that_is_a_link_hides_no_file(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    char target[128];

    open_desk(*state, &d);
    (void)snprintf(target, sizeof(target), "%s", scratch_dir(*state, "elsewhere"));
    (void)scratch_write(*state, "elsewhere/config.yml", "sandbox: {enabled: true}");
    assert_int_equal(symlink(target, scratch_path(*state, "project/.agent")), 0);
    d.from.preset = "acode";
    d.from.config = NULL;
    assert_int_equal(try_load(&d, &s, &err), -1);
    assert_non_null(strstr(err.message, "is not a regular file"));
}

static void somebody_elses_repository_above_is_refused(void **state)
{
    struct desk d;
    struct settings *s = NULL;
    struct vial_error err = { 0 };
    char below[128];
    char git[128];
    size_t len = 0;

    if (geteuid() != 0)
        skip(); /* only root can give files away */
    open_desk(*state, &d);
    (void)scratch_write(*state, "project/vial.yaml", "defaults: {pids: 3}");
    (void)snprintf(below, sizeof(below), "%s", scratch_dir(*state, "project/rootwork"));
    (void)snprintf(git, sizeof(git), "%s/.git", d.project);
    assert_int_equal(repository_find(below, d.state, &len, &err), 0);
    assert_int_equal(len, strlen(d.project));

    assert_int_equal(chown(git, 1000, 1000), 0);
    assert_int_equal(repository_find(below, d.state, &len, &err), -1);
    assert_int_equal(chown(d.project, 1000, 1000), 0);
    assert_int_equal(repository_find(below, d.state, &len, &err), -1);
    assert_string_equal(err.code, "VIAL-TRUST");
    assert_non_null(strstr(err.message, "belongs to user 1000"));
    d.from.project_dir = below;
    assert_int_equal(try_load(&d, &s, &err), 0); /* nor is its file read from there */
    assert_true(s->defaults.pids == 128);
    settings_free(s);
    /* Its own root shows no more than the directory itself. */
    assert_int_equal(repository_find(d.project, d.state, &len, &err), 0);
    /* Who called sudo, or works in a tree that is one user's from top to bottom. */
    assert_int_equal(setenv("SUDO_UID", "1000", 1), 0); /* NOLINT */
    assert_int_equal(repository_find(below, d.state, &len, &err), 0);
    assert_int_equal(unsetenv("SUDO_UID"), 0); /* NOLINT */
    assert_int_equal(chown(below, 1000, 1000), 0);
    assert_int_equal(repository_find(below, d.state, &len, &err), 0);
    assert_int_equal(chown(below, 0, 0), 0);
    assert_int_equal(repository_find(below, d.state, &len, &err), -1);
    assert_int_equal(trust_write(d.state, d.project, NULL, NULL, &err), 0);
    assert_int_equal(repository_find(below, d.state, &len, &err), 0);
    assert_int_equal(len, strlen(d.project));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_trusted_file_may_set_what_the_policy_allows),
        scratch_test(one_changed_byte_makes_a_stranger_of_it),
        scratch_test(trust_is_bound_to_the_path),
        scratch_test(other_files_and_the_operators_keys_are_never_the_projects),
        scratch_test(records_that_others_could_have_written_are_not_believed),
        scratch_test(hostile_records_are_passed_over),
        scratch_test(a_file_is_found_from_below_it_in_its_repository),
        scratch_test(a_directory_that_is_a_link_hides_no_file),
        scratch_test(somebody_elses_repository_above_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
