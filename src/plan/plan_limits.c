/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits: what the request or a layer of settings says; else what the language
 * needs; else the built-in default. The policy's caps hold for all of them.
 */
#include "base/fail.h"
#include "plan/draft.h"

static int64_t asked_for(const struct vial_request *req, enum field_id id)
{
    bool builtin = (req->builtin >> id) & 1u;

    return builtin ? 0 : request_amount(req, id);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t choose(const struct draft *d, const struct limit_row *row)
{
    int64_t asked = asked_for(d->req, row->field);
    int64_t needed = d->language ? limits_get(&d->language->limits, row) : 0;
    int64_t cap = policy_cap(&d->settings->policy, row->field);

    bool firm = d->language &&
                ((d->language->firm_limits >> (row - limit_rows)) & 1u) &&
                !((d->req->own >> row->field) & 1u);

    if (asked && !(firm && needed))
        return asked; /* policy_check has compared it with the cap */
    if (needed)
        return lower(needed, cap);
    return lower(request_amount(d->req, row->field), cap);
}

/* A cap that an operator has set holds for those who do not name a limit, too. */
static int64_t implied_cpu_ms(const struct policy *p)
{
    return (p->set >> POLICY_ID_max_cpu_time) & 1u ? p->max_cpu_time : 0;
}

int plan_limits_build(struct draft *d, struct vial_error *err)
{
    struct limits *limits = &d->plan->limits;

    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        int64_t value = choose(d, &limit_rows[i]);

        if (limit_rows[i].needed && value <= 0)
            return fail(err, VIAL_E_INTERNAL, "limit '%s' has no value",
                        fields[limit_rows[i].field].name);
        *limits_at(limits, &limit_rows[i]) = value;
    }
    if (limits->cpu_ms == 0)
        limits->cpu_ms = implied_cpu_ms(&d->settings->policy);
    return 0;
}
