/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "driver/kubernetes/cluster_api.h"

/* The words of whoever connected are about engines. */
int cluster_unreached(const struct cluster_api *api, const struct cluster_call *call,
                      struct vial_error *err)
{
    if (!err || fail_is(err, VIAL_E_CANCELLED))
        return -1;
    if (fail_is(err, VIAL_E_ENGINE_TLS)) {
        (void)fail_as(err, VIAL_E_CLUSTER_TLS);
        (void)fail_remedy(err, "check 'certificate-authority', and the client's "
                               "certificate and key, in the kubeconfig");
    } else if (str_starts(err->code, "VIAL-ENGINE-") || fail_is(err, VIAL_E_SYSTEM)) {
        bool odd = fail_is(err, VIAL_E_ENGINE_API);

        (void)fail_as(err, odd ? VIAL_E_CLUSTER_API : VIAL_E_CLUSTER_DOWN);
        (void)fail_remedy(err,
                          "see whether the API server at %.200s answers: 'kubectl "
                          "get --raw /readyz'",
                          api->head);
    }
    return fail_in(err, "%s", call->about);
}

void cluster_add_cause(struct vial_error *err, const char *text)
{
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!text || !*text || !err)
        return;
    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (str_ok(&safe) && safe.data)
        (void)fail_cause(err, "%s", safe.data);
}

static int forbidden(const struct cluster_call *call, const char *text,
                     struct vial_error *err)
{
    if (strstr(text, "exceeded quota") || strstr(text, "failed quota")) {
        (void)fail(err, VIAL_E_CLUSTER_QUOTA, "%s: the namespace's quota is used up",
                   call->about);
        return fail_remedy(err, "wait until pods have ended, ask for less, or have the "
                                "ResourceQuota raised");
    }
    if (strstr(text, "RuntimeClass") || strstr(text, "runtimeclass")) {
        (void)fail(err, VIAL_E_ENGINE_RUNTIME,
                   "%s: the cluster has no such RuntimeClass", call->about);
        return fail_remedy(err, "name one that 'kubectl get runtimeclasses' lists");
    }
    if (strstr(text, "no PriorityClass with name")) {
        (void)fail(err, VIAL_E_CLUSTER_CONFIG,
                   "%s: the cluster has no such PriorityClass", call->about);
        return fail_remedy(err, "let 'priority_class' of the settings name one that "
                                "'kubectl get priorityclasses' lists");
    }
    (void)fail(err, VIAL_E_CLUSTER_ACCESS, "%s: the cluster does not allow it",
               call->about);
    return fail_remedy(err, "give the user the Role of deploy/driver/role.yaml");
}

/* Why, in a word and in a sentence of the API's own; NULL: it does not say. */
static json_t *read_status(const char *body, size_t len, const char **reason,
                           const char **message)
{
    json_t *answer = NULL;

    if (body && json_parse(body, len, "answer", &answer, NULL) < 0)
        answer = NULL;
    *reason = json_string_value(json_object_get(answer, "reason"));
    *message = json_string_value(json_object_get(answer, "message"));
    return answer;
}

/* Others changed what our object counts in, a quota for one: it was not made. */
static bool in_conflict(const char *method, int status, const char *reason)
{
    return status == 409 && str_eq(method, "POST") && str_eq(reason, "Conflict");
}

/* The API server's word, and vial-tls's. */
bool cluster_is_unknown(int status)
{
    return status == 401 || status == 495;
}

int cluster_refused(const struct cluster_call *call, int status, const char *body,
                    size_t len, struct vial_error *err)
{
    const char *reason, *text;
    auto_json json_t *answer = read_status(body, len, &reason, &text);

    if (cluster_is_unknown(status)) {
        (void)fail(err, VIAL_E_CLUSTER_ACCESS, "%s: the cluster does not know who asks",
                   call->about);
        (void)fail_remedy(err, "renew the credentials of the kubeconfig's user");
    } else if (status == 403) {
        (void)forbidden(call, text ? text : "", err);
    } else if (status == 404) {
        (void)fail(err, VIAL_E_CLUSTER_GONE, "%s: there is none", call->about);
    } else if (status == 409 && !in_conflict(call->method, status, reason)) {
        (void)fail(err, VIAL_E_NAME_TAKEN, "%s: there is one already", call->about);
    } else {
        (void)fail(err, VIAL_E_CLUSTER_API, "%s: the API server refuses with status %d",
                   call->about, status);
        (void)fail_remedy(err, "see its own words, and try again later");
    }
    cluster_add_cause(err, text);
    return -1;
}

bool cluster_is_missing(const struct vial_error *why)
{
    return fail_is(why, VIAL_E_CLUSTER_GONE);
}

bool cluster_is_taken(const struct vial_error *why)
{
    return fail_is(why, VIAL_E_NAME_TAKEN);
}

static bool says_so(const char *method, const struct http_answer *a)
{
    const char *reason, *text;
    auto_json json_t *answer = read_status(a->body.data, a->body.len, &reason, &text);

    return a->status == 429 || a->status == 503 || a->status == 504 ||
           in_conflict(method, a->status, reason);
}

/* It has not begun, and says itself that the trouble will pass; or nobody was there, or
 * hung up before an answer to a question. A pod is created under a name of its own, so
 * that a second try makes no second one. */
bool cluster_may_pass(const char *method, int rc, const struct http_answer *a,
                      const struct vial_error *why)
{
    return rc < 0 ? fail_is(why, VIAL_E_ENGINE_DOWN) : says_so(method, a);
}
