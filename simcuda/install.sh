#!/bin/sh
# Puts the simulated driver into a directory for LD_LIBRARY_PATH: install.sh LIBRARY DIRECTORY [FUNCTION…]
# LIBRARY is libsimcuda.so. The functions named are left out of the copy, as an old driver's would be: in its table of names
# their first letter becomes an X, so that a look-up by hash finds an entry whose name is another one.
set -eu
library=${1:?usage: install.sh LIBRARY DIRECTORY [FUNCTION…]}
directory=${2:?usage: install.sh LIBRARY DIRECTORY [FUNCTION…]}
shift 2
mkdir -p "$directory"
copy=$directory/libcuda.so.1
# A new file: a process may have the old one mapped.
rm -f "$copy"
cp "$library" "$copy"
for function in "$@"; do
  sed -i -z "s/^$function\$/X${function#?}/" "$copy"
  if readelf --dyn-syms --wide "$copy" | grep -q " $function\$"; then
    echo "install.sh: $function is still in $copy" >&2
    exit 1
  fi
  if ! readelf --dyn-syms --wide "$copy" | grep -q " X${function#?}\$"; then
    echo "install.sh: there is no $function in $library; the exported names have version suffixes, such as cuMemAlloc_v2" >&2
    exit 1
  fi
done
