/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "http/out_rules.h"

static struct out_rules read(const char *const *texts)
{
    struct out_rules r = { 0 };

    for (; *texts; texts++)
        assert_null(out_rules_add(&r, *texts));
    return r;
}

static bool leads_to(const struct out_rules *r, const char *text, uint16_t port)
{
    struct range at;

    assert_true(range_parse(text, &at));
    return out_rules_have_address(r, &at.first, port);
}

static void a_host_is_called_by_its_name_on_its_ports(void **state)
{
    const struct out_rules r =
        read((const char *const[]){ "a.example.com", "*.b.example.com:8443",
                                    "10.1.2.3:99", "[fd00::1]:99", "fd00::2", NULL });

    (void)state;
    assert_true(out_rules_have_host(&r, "a.example.com", 80));
    assert_true(out_rules_have_host(&r, "a.example.com", 443));
    assert_false(out_rules_have_host(&r, "a.example.com", 8080));
    assert_true(out_rules_have_host(&r, "x.b.example.com", 8443));
    assert_false(out_rules_have_host(&r, "b.example.com", 8443));
    assert_true(out_rules_have_host(&r, "10.1.2.3", 99));
    assert_false(out_rules_have_host(&r, "10.1.2.3", 80));
    assert_true(out_rules_have_host(&r, "fd00::1", 99));
    assert_true(out_rules_have_host(&r, "fd00::2", 443));
    assert_false(out_rules_have_host(&r, "fd00::3", 443));
}

static void a_public_address_has_to_be_named_in_a_url_as_any_other(void **state)
{
    const struct out_rules r = read((const char *const[]){ "*", NULL });

    (void)state;
    assert_true(out_rules_have_host(&r, "a.example.com", 443));
    assert_false(out_rules_have_host(&r, "1.1.1.1", 443));
    assert_false(out_rules_have_host(&r, "1.1.1.1/0", 443));
    assert_false(out_rules_have_host(&r, "", 443));
}

static void a_name_leads_to_public_addresses_and_to_named_ones(void **state)
{
    const struct out_rules r = read((const char *const[]){
        "*:8080", "10.0.0.0/8", "192.168.0.0/16:8080", "[fd00::/8]:8080", NULL });

    (void)state;
    assert_true(leads_to(&r, "1.1.1.1", 8080));
    assert_true(leads_to(&r, "10.1.1.1", 443));
    assert_false(leads_to(&r, "10.1.1.1", 8080));
    assert_true(leads_to(&r, "192.168.7.7", 8080));
    assert_true(leads_to(&r, "fd12::7", 8080));
    assert_false(leads_to(&r, "127.0.0.1", 8080));
    assert_false(leads_to(&r, "::1", 8080));
    assert_false(leads_to(&r, "169.254.169.254", 80));
}

static void what_is_no_rule_is_told(void **state)
{
    static const char *const wrong[] = { "",           "http://a/",      "a.b:0",
                                         "10.0.0.1:",  "10.0.0.1:99999", "10.0.0.0/33",
                                         "[fd00::1",   "[fd00::1]x",     "[a.b]:1",
                                         "10.0.0.1:8x" };
    struct out_rules r = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (!out_rules_add(&r, wrong[i]))
            fail_msg("'%s' passes for a rule", wrong[i]);
    for (size_t i = 0; i < OUT_RULES_MAX; i++)
        assert_null(out_rules_add(&r, "10.0.0.1"));
    assert_non_null(out_rules_add(&r, "10.0.0.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_called_by_its_name_on_its_ports),
        cmocka_unit_test(a_public_address_has_to_be_named_in_a_url_as_any_other),
        cmocka_unit_test(a_name_leads_to_public_addresses_and_to_named_ones),
        cmocka_unit_test(what_is_no_rule_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
