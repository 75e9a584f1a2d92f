/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_MAPPINGS_H
#define VIAL_ZYGOTE_MAPPINGS_H

/* Lists what a process has mapped for itself and can read. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
    uint64_t start, end;
    bool writable, executable, of_file, is_heap;
    int pagemap; /* Documentation/admin-guide/mm/pagemap */
};

typedef void mapping_fn(void *context, const struct mapping *m);

/* PROC_FD is a /proc in which PID exists; it must show itself. */
void mappings_each(int proc_fd, pid_t pid, mapping_fn *call, void *context);
/* The caller can be looked at, by others and itself. */
void mappings_show(bool shown);

#endif
