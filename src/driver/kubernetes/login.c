/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/login.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/kubernetes/exec_plugin.h"

#define EARLY_S 10 /* for a call that is on its way, and clocks that differ */

bool login_ends(const struct cluster *c)
{
    return c->exec.count > 0 && c->ends_s > 0 && time(NULL) + EARLY_S >= c->ends_s;
}

static int renew_token(struct cluster *c, struct vial_error *err)
{
    auto_free char *before = NULL;

    if (!c->token_file)
        return 0;
    before = c->token ? strdup(c->token) : NULL;
    if (c->token && !before)
        return fail_memory(err);
    return cluster_read_token(c, err) < 0 ? -1 : !str_eq(before, c->token);
}

int login_renew(struct cluster *c, struct vial_error *err)
{
    int token, certificate;

    if (c->exec.count > 0)
        return exec_plugin_ask(c, err) < 0 ? -1 : 1;
    token = renew_token(c, err);
    certificate = token < 0 ? -1 : cluster_read_certificate(c, err);
    return certificate < 0 ? -1 : token | certificate;
}
