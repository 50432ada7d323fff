/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that fails the agents of the host (FAULT_FILES), in one of these ways. */
#ifndef TESTS_SIM_SEAM_FILE_H
#define TESTS_SIM_SEAM_FILE_H

enum seam_file_fault {
    SEAM_FILE_NONE,
    SEAM_FILE_FULL,      /* nothing new can be made; what is there can be rewritten */
    SEAM_FILE_READ_ONLY, /* not even that */
    SEAM_FILE_BROKEN,    /* reads fail, too */
    SEAM_FILE_SHORT,     /* only a part of what is written arrives: the page is torn */
};

enum seam_file_fault seam_file_fault(void);

#endif
