/* SPDX-License-Identifier: Apache-2.0 */
/* What --version says beside a program's name. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* "0.1.0 (commit 0123456789ab)", or "0.1.0" where the sources are of no repository. Static. */
const char *version_text(void);

#endif
