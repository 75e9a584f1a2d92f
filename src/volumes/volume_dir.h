/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_VOLUMES_VOLUME_DIR_H
#define VIAL_VOLUMES_VOLUME_DIR_H

/* What lies in the store of volumes, for the files of this room: volume_store.h says
 * how. */

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "volumes/volume_store.h"

#define VOLUME_OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define VOLUME_FILE     (VOLUME_NAME + 4) /* a name as it lies in the store */
#define VOLUME_NEW      ".new-"
#define VOLUME_GONE     ".gone-"

/* Bytes of `lock`. */
enum volume_byte { VOLUME_USE, VOLUME_WRITER, VOLUME_ATTACH };

void volume_file_of(const char *name, char out[VOLUME_FILE]);
/* False for what is no volume's. */
bool volume_name_of(const char *file, char out[VOLUME_NAME]);
int volume_check_name(const char *name, struct vial_error *err);

/* VIAL-VOLUME, and VIAL-FILE for one that lost a part of itself. */
int volume_not_here(const char *name, struct vial_error *err);
int volume_not_whole(const char *name, struct vial_error *err);

/* The store is believed, so nobody else may write to it. -1 with code "" in ERR: there
 * is none. */
int volume_dir_store(const char *store_dir, struct vial_error *err);
/* Against makers, and for them. VIAL-BUSY: others had it for MOST_MS. */
int volume_dir_lock(int store_fd, int most_ms, struct vial_error *err);
#define VOLUME_LOCK_MS 10000

/* Calls SEE for each file of the store, hidden ones too, until it gives another value
 * than 0, which is given then; -1 with ERR: the store could not be read to its end. */
typedef int volume_see(int store_fd, const char *file, void *context);
int volume_dir_each(int store_fd, volume_see *see, void *context,
                    struct vial_error *err);
/* Removes what makers (VOLUME_NEW) or removers (VOLUME_GONE) have left that have died.
 * Of makers under the store's lock, so that none is at work. A remover has a lock on
 * the directory: nobody waits for the end of a large one. */
int volume_dir_sweep(int store_fd, const char *beginning, struct vial_error *err);

/* NAME's directory, and the store's; -1 with ERR. */
int volume_dir_find(const char *store_dir, const char *name, int *store_fd,
                    struct vial_error *err);
/* Still what FILE means, now that it is locked. */
bool volume_dir_same(int store_fd, const char *file, int dir_fd);

/* As fcntl has it; 1: with F_OFD_GETLK, somebody else's is in the way. */
int volume_lock_byte(int fd, int command, short type, enum volume_byte byte);

/* What it was made with; -1: it is not whole. */
int volume_record_write(int dir_fd, const struct volume_terms *terms);
int volume_record_read(int dir_fd, struct volume_info *out);
/* Whether what programs left is there, as the record has it. */
bool volume_data_there(int dir_fd, const struct volume_info *info, struct stat *st);

#endif
