/* SPDX-License-Identifier: Apache-2.0 */
/* Forced into what clang-tidy reads, for the analyzer sees one file at a time: the error functions
 * return the code they are given, which is never 0; what is not empty is not NULL. */
#ifndef LINT_ANALYZER_H
#define LINT_ANALYZER_H

#include "base/err.h"
#include "base/text.h"

#define err_set(e, code, ...)            ((void)(err_set)(e, code, __VA_ARGS__), (code))
#define err_set_errno(e, code, sys, ...) ((void)(err_set_errno)(e, code, sys, __VA_ARGS__), (code))
#define err_wrap(e, ...)                 ((void)(err_wrap)(e, __VA_ARGS__), ERR_BUG)
#define text_is_empty(s)                 ((s) == NULL || (text_is_empty)(s))

#endif
