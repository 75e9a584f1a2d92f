/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_json IN OUT: writes the YAML file IN as JSON, which is YAML as well and is read
 * many times faster. */
#include <stdio.h>

#include "base/json.h"

int main(int argc, char **argv)
{
    auto_json json_t *value = NULL;
    struct vial_error err = { 0 };

    if (argc == 3 && yaml_read(argv[1], &value, &err) == 0 &&
        json_dump_file(value, argv[2], JSON_COMPACT) == 0)
        return 0;
    (void)fprintf(stderr, "yaml_json: %s\n", argc == 3 ? err.message : "usage: IN OUT");
    return 1;
}
