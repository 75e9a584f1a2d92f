/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_THREADS_H
#define VIAL_ENGINE_THREADS_H

/* Threads of the library: the caller's signals are the caller's threads' business,
 * so that ours take none. */

#include <pthread.h>
#include <stdint.h>

/* 0 or an errno, as pthread_create. */
typedef void *thread_fn(void *context);
int threads_start(pthread_t *out, thread_fn *work, void *context);
/* A condition that can be waited for by CLOCK_MONOTONIC. */
void threads_cond_init(pthread_cond_t *cond);
/* At most MS. */
void threads_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms);

#endif
