/* SPDX-License-Identifier: Apache-2.0 */

/* Runs one line of Python in a vessel:
 *   cc hello.c $(pkg-config --cflags --libs vial) -o hello && ./hello */

#include <stdio.h>
#include <vial/vial.h>

int main(void)
{
    static const char json[] = "{\"language\": \"python\", \"code\": \"print(2 + 2)\"}";
    struct vial_engine *engine = NULL;
    struct vial_request *request = NULL;
    struct vial_result *result = NULL;
    struct vial_error err;

    if (vial_engine_open(NULL, &engine, &err) < 0 ||
        vial_request_parse(json, sizeof json - 1, &request, &err) < 0 ||
        vial_run(engine, request, NULL, &result, &err) < 0) {
        (void)fprintf(stderr, "%s: %s\n", err.code, err.message);
        return 1;
    }
    (void)printf("%s: %s", vial_verdict_name(result->verdict), result->out.data);
    vial_result_free(result);
    vial_request_free(request);
    vial_engine_close(engine);
    return 0;
}
