/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "vial/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (vial_request_parse((const char *)data, len, &req, &err) < 0) {
        MUST(!req && strncmp(err.code, "VIAL-", 5) == 0 && err.message[0]);
        return 0;
    }
    MUST(req);
    vial_request_free(req);
    return 0;
}
