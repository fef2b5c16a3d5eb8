/* Faults on purpose, which Valgrind must report: without an argument it has none. */
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  char *volatile memory = malloc(16);
  if (memory == NULL) {
    return 1;
  }
  memset(memory, 1, 16);
  if (argc > 1 && strcmp(argv[1], "leak") == 0) {
    memory = NULL;
    return 0;
  }
  free(memory);
  if (argc > 1 && strcmp(argv[1], "read-after-free") == 0) {
    /* Through a second volatile pointer, so that no compiler sees the fault. */
    char *volatile again = memory;
    return *(volatile char *)again == 2;
  }
  return 0;
}
