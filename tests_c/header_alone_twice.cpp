/* As the C program, for C++ and for raskio.hpp too. */
#include <raskio.hpp>
#include <raskio.hpp>

#include "header_alone_twice.c"
