/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_REMOVE_TREE_H
#define VIAL_BASE_REMOVE_TREE_H

/* Removes directory NAME of PARENT_FD with all that is in it. Links
 * are not followed and mounts not entered. What cannot be removed stays. */
void remove_tree(int parent_fd, const char *name);

#endif
