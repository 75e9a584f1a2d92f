/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_POD_CASE_H
#define VIAL_TESTS_POD_CASE_H

/* Pods of plans, and what must be true of each. */

#include "driver/kubernetes/pod.h"
#include "golden_dir.h"

static const struct pod_options pod_options_usual = { .vessel_id = "v-0123456789abcdef",
                                                      .owner = "vial-1-2-3-v-0",
                                                      .host = "boot",
                                                      .arch = "amd64",
                                                      .guest_bytes = 1000000,
                                                      .uid = 20001,
                                                      .room_seconds = 60 };

static inline json_t *pod_of_request(struct scratch *s, const char *request)
{
    auto_plan struct plan *plan = golden_plan(s, request, "kubernetes");
    struct vial_error err = { 0 };
    json_t *out = pod_json(plan, &pod_options_usual);

    if (pod_check(plan, &err) < 0)
        fail_msg("%s: %s", request, err.message);
    assert_non_null(out);
    return out;
}

/* The Pod Security Standard "restricted", and nothing besides what is listed. */
static inline void pod_expect_restricted(json_t *pod)
{
    static const char *const spec_keys[] = { "restartPolicy",
                                             "automountServiceAccountToken",
                                             "enableServiceLinks",
                                             "hostNetwork",
                                             "hostPID",
                                             "hostIPC",
                                             "shareProcessNamespace",
                                             "terminationGracePeriodSeconds",
                                             "activeDeadlineSeconds",
                                             "hostname",
                                             "nodeSelector",
                                             "securityContext",
                                             "containers",
                                             "volumes",
                                             "dnsPolicy",
                                             "dnsConfig",
                                             "runtimeClassName",
                                             "tolerations",
                                             "imagePullSecrets",
                                             "priorityClassName",
                                             NULL };
    static const char *const container_keys[] = {
        "name", "image",     "imagePullPolicy", "command",   "workingDir",   "stdin",
        "tty",  "stdinOnce", "securityContext", "resources", "volumeMounts", NULL
    };
    static const char *const off[] = { "automountServiceAccountToken",
                                       "enableServiceLinks",
                                       "hostNetwork",
                                       "hostPID",
                                       "hostIPC",
                                       "shareProcessNamespace" };
    static const char *const volume_keys[] = { "name", "emptyDir", NULL };
    json_t *spec = json_object_get(pod, "spec");
    json_t *containers = json_object_get(spec, "containers");
    json_t *c = json_array_get(containers, 0);
    json_t *inner = json_object_get(c, "securityContext");
    json_t *outer = json_object_get(spec, "securityContext");
    json_t *volume = NULL;
    size_t i = 0;

    expect_keys(spec, spec_keys);
    expect_keys(c, container_keys);
    assert_int_equal(json_array_size(containers), 1);
    for (i = 0; i < sizeof(off) / sizeof(*off); i++)
        assert_true(json_is_false(json_object_get(spec, off[i])));
    assert_true(json_is_false(json_object_get(inner, "allowPrivilegeEscalation")));
    assert_true(json_is_false(json_object_get(inner, "privileged")));
    assert_true(json_is_true(json_object_get(inner, "readOnlyRootFilesystem")));
    assert_true(json_is_true(json_object_get(outer, "runAsNonRoot")));
    assert_true(json_integer_value(json_object_get(outer, "runAsUser")) > 0);
    assert_string_equal(text_at(json_object_get(outer, "seccompProfile"), "type"),
                        "RuntimeDefault");
    assert_string_equal(
        json_string_value(json_array_get(
            json_object_get(json_object_get(inner, "capabilities"), "drop"), 0)),
        "ALL");
    assert_true(json_integer_value(json_object_get(spec, "activeDeadlineSeconds")) > 0);
    assert_true(
        json_equal(json_object_get(json_object_get(c, "resources"), "limits"),
                   json_object_get(json_object_get(c, "resources"), "requests")));
    json_array_foreach(json_object_get(spec, "volumes"), i, volume)
    {
        expect_keys(volume, volume_keys);
    }
}

#endif
