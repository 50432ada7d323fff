/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes, under names that say what they ask of the reader. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

/* The result says whether it worked: ignoring it is a warning. */
#define NODISCARD __attribute__((warn_unused_result))

/* Argument `fmt_at` is a printf format for the arguments from `args_at` on (1-based). */
#define PRINTF_LIKE(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
