/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_THREAD_H
#define VIAL_BASE_THREAD_H

/* Threads of ours: the caller's signals are the caller's threads' business, so that
 * ours take none. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define THREAD_STACK ((size_t)512 << 10) /* enough for all that a run needs */

typedef void *thread_fn(void *context);

/* With a stack of so many bytes. 0 or an errno, as pthread_create. */
int thread_start(pthread_t *out, size_t stack_bytes, thread_fn *work, void *context);
/* The same, and nobody will wait for its end. */
int thread_start_alone(size_t stack_bytes, thread_fn *work, void *context);
/* A condition that can be waited for by CLOCK_MONOTONIC. */
void thread_cond_init(pthread_cond_t *cond);
/* At most MS. */
void thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms);

#endif
