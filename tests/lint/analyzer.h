/* SPDX-License-Identifier: Apache-2.0 */
/* Forced into what clang-tidy reads: tells the analyzer, which sees one file at a time, that the
 * error functions return the code they are given, which is never 0. */
#ifndef LINT_ANALYZER_H
#define LINT_ANALYZER_H

#include "base/err.h"

#define err_set(e, code, ...)            ((void)(err_set)(e, code, __VA_ARGS__), (code))
#define err_set_errno(e, code, sys, ...) ((void)(err_set_errno)(e, code, sys, __VA_ARGS__), (code))
#define err_wrap(e, ...)                 ((void)(err_wrap)(e, __VA_ARGS__), ERR_BUG)

#endif
