/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "check.h"
#include "driver/driver.h"

static int check(const char *wanted, const char *level, const char *layer,
                 const char *limits_by, struct vial_error *err)
{
    auto_strv struct strv require = { 0 };
    auto_strv struct strv layers = { 0 };

    strv_push(&require, "none");
    strv_push(&require, wanted);
    strv_push(&layers, layer);
    return driver_check_required(&require, level, &layers, limits_by, err);
}

static void a_level_is_met_by_itself_and_by_stronger_ones(void **state)
{
    (void)state;
    assert_int_equal(check("landlock", "landlock", "landlock", "none", NULL), 0);
    assert_int_equal(check("namespaces", "container", "x", "none", NULL), 0);
    assert_int_equal(check("container", "namespaces", "x", "none", NULL), 0);
    assert_int_equal(check("namespaces", "landlock", "x", "none", NULL), -1);
}

static void a_weaker_level_is_refused_by_name(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(check("namespaces", "none", "x", "none", &err), -1);
    assert_error(&err,
                 "VIAL-ISOLATION require 'namespaces': the vessel would have level "
                 "'none'");
    assert_non_null(strstr(err.remedy, "vial doctor"));
}

static void a_layer_must_be_active(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(check("seccomp", "namespaces", "seccomp", "none", NULL), 0);
    assert_int_equal(check("landlock", "none", "landlock", "none", NULL), 0);
    assert_int_equal(check("seccomp", "namespaces", "user", "none", &err), -1);
    assert_error(&err,
                 "VIAL-ISOLATION require 'seccomp': the vessel would lack this layer");
}

/* The level of that name is weaker than namespaces, which may come without the layer.
 */
static void landlock_means_the_layer_whatever_the_level(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(check("landlock", "namespaces", "landlock", "none", NULL), 0);
    assert_int_equal(check("landlock", "namespaces", "seccomp", "none", &err), -1);
    assert_error(&err,
                 "VIAL-ISOLATION require 'landlock': the vessel would lack this layer");
}

static void limits_must_be_the_kernels_if_required(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(check("limits=cgroup", "none", "x", "cgroup2", NULL), 0);
    assert_int_equal(check("limits=cgroup", "none", "x", "cgroup1", NULL), 0);
    assert_int_equal(check("limits=cgroup", "none", "x", "rlimit", &err), -1);
    assert_error(&err,
                 "VIAL-LIMITS require 'limits=cgroup': the vessel would have limits "
                 "by 'rlimit'");
}

static void an_unknown_driver_is_refused(void **state)
{
    const struct strv nothing = { 0 };
    const struct driver *driver = NULL;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(driver_choose(drivers, "podman", &nothing, &driver, &err), -1);
    assert_error(&err, "VIAL-DRIVER driver 'podman' is not in this build");
    assert_null(driver);
}

static void auto_never_means_a_driver_without_isolation(void **state)
{
    const struct strv nothing = { 0 };
    const struct driver *driver = NULL;
    struct vial_error err = { 0 };

    (void)state;
    (void)setenv("VIAL_TEST_FAKE", "1", 1);
    if (driver_choose(drivers, "auto", &nothing, &driver, &err) == 0) {
        assert_string_not_equal(driver->name, "process");
        assert_string_not_equal(driver->name, "fake");
    } else {
        assert_true(err.code[0] != '\0');
    }
}

static void auto_is_refused_when_nothing_is_strong_enough(void **state)
{
    auto_strv struct strv require = { 0 };
    const struct driver *driver = NULL;
    struct vial_error err = { 0 };

    (void)state;
    strv_push(&require, "no-such-layer");
    assert_int_equal(driver_choose(drivers, "auto", &require, &driver, &err), -1);
    assert_true(err.code[0] != '\0');
    assert_null(driver);
}

static void a_weak_driver_works_when_it_is_named(void **state)
{
    const struct strv nothing = { 0 };
    const struct driver *driver = NULL;

    (void)state;
    assert_int_equal(driver_choose(drivers, "process", &nothing, &driver, NULL), 0);
    assert_string_equal(driver->name, "process");
}

static void the_fake_exists_only_for_tests(void **state)
{
    (void)state;
    (void)setenv("VIAL_TEST_FAKE", "0", 1);
    assert_null(driver_find(drivers, "fake"));
    (void)setenv("VIAL_TEST_FAKE", "1", 1);
    assert_non_null(driver_find(drivers, "fake"));
    (void)unsetenv("VIAL_TEST_FAKE");
    assert_null(driver_find(drivers, "fake"));
}

static void the_weakest_driver_is_usable_but_never_automatic(void **state)
{
    static struct caps caps;
    bool automatic = true;

    (void)state;
    assert_true(driver_examine(driver_find(drivers, "process"), &caps, &automatic));
    assert_true(caps.usable);
    assert_false(automatic);
    assert_string_equal(caps.level, "none");
    assert_string_equal(caps.why_not.code, "");
}

static void nobody_is_told_of_the_tests_own_driver(void **state)
{
    static struct caps caps;
    const struct driver *fake;
    bool automatic;

    (void)state;
    (void)setenv("VIAL_TEST_FAKE", "1", 1);
    fake = driver_find(drivers, "fake");
    (void)unsetenv("VIAL_TEST_FAKE");
    assert_false(driver_examine(fake, &caps, &automatic));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_is_met_by_itself_and_by_stronger_ones),
        cmocka_unit_test(a_weaker_level_is_refused_by_name),
        cmocka_unit_test(a_layer_must_be_active),
        cmocka_unit_test(landlock_means_the_layer_whatever_the_level),
        cmocka_unit_test(limits_must_be_the_kernels_if_required),
        cmocka_unit_test(an_unknown_driver_is_refused),
        cmocka_unit_test(auto_never_means_a_driver_without_isolation),
        cmocka_unit_test(auto_is_refused_when_nothing_is_strong_enough),
        cmocka_unit_test(a_weak_driver_works_when_it_is_named),
        cmocka_unit_test(the_fake_exists_only_for_tests),
        cmocka_unit_test(the_weakest_driver_is_usable_but_never_automatic),
        cmocka_unit_test(nobody_is_told_of_the_tests_own_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
