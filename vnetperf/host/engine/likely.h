/* Hints for the compiler: which way a branch mostly goes. */
#ifndef ENGINE_LIKELY_H
#define ENGINE_LIKELY_H

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
