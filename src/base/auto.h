/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_AUTO_H
#define VIAL_BASE_AUTO_H

/*
 * Scope-bound ownership. A variable marked auto_X is released when its scope
 * ends; *_take moves the value out and leaves nothing behind.
 */

#include <stdlib.h>
#include <unistd.h>

static inline void auto_free_(void *p)
{
    free(*(void **)p);
}

static inline void auto_fd_(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

#define auto_free __attribute__((cleanup(auto_free_)))
#define auto_fd   __attribute__((cleanup(auto_fd_)))

/* A room defines its own with AUTO(name, type, release): auto_name then works
 * on variables of TYPE *; release gets the pointer when it is not NULL. */
#define AUTO(name, type, release)                                                      \
    static inline void auto_##name##_(__typeof__(type) **p)                            \
    {                                                                                  \
        if (*p)                                                                        \
            release(*p);                                                               \
    }

static inline int fd_take(int *fd)
{
    int value = *fd;

    *fd = -1;
    return value;
}

#define ptr_take(p)                                                                    \
    __extension__({                                                                    \
        __typeof__(*(p)) taken_ = *(p);                                                \
        *(p) = NULL;                                                                   \
        taken_;                                                                        \
    })

#endif
