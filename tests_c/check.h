/* What every test program uses to say what failed. A program returns CHECK_DONE(): 0 when every check held, 1 otherwise;
 * it exits with 77 when it cannot run here. */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures;

/* Counted by many threads; the first ones are printed. */
#define CHECK_FAILED(...)                                                      \
  do {                                                                         \
    if (__atomic_add_fetch(&check_failures, 1, __ATOMIC_SEQ_CST) <= 20) {      \
      fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                          \
      fprintf(stderr, __VA_ARGS__);                                            \
      fprintf(stderr, "\n");                                                   \
    }                                                                          \
  } while (0)

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) CHECK_FAILED("not true: %s", #condition);                \
  } while (0)

#define CHECK_EQ(actual, expected)                                             \
  do {                                                                         \
    long long check_a = (long long)(actual), check_e = (long long)(expected);  \
    if (check_a != check_e)                                                    \
      CHECK_FAILED("%s is %lld, expected %lld (%s)", #actual, check_a,         \
                   check_e, #expected);                                        \
  } while (0)

/* What the rest of the program stands on. */
#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      CHECK_FAILED("needed, and not true: %s", #condition);                    \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

#define CHECK_DONE() (__atomic_load_n(&check_failures, __ATOMIC_SEQ_CST) == 0 ? 0 : 1)

#define SKIP(...)                                                              \
  do {                                                                         \
    fprintf(stderr, "skipped: ");                                              \
    fprintf(stderr, __VA_ARGS__);                                              \
    fprintf(stderr, "\n");                                                     \
    exit(77);                                                                  \
  } while (0)

#endif
