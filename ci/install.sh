#!/bin/sh
# Installs, from Debian's packages, what a build or a test of Weir needs and this machine lacks.
#
#   ci/install.sh build    a C compiler, make, and libclang (the SQL grammar's bindings are generated)
#   ci/install.sh test     the same, a PostgreSQL server for the differential tests, MariaDB, z3 for the proofs, and a
#                          Chromium without windows that looks at the report, pip, npm, Ruby, Maven and Go for clients of PostgreSQL
#
# It says what it will do before it does it. Where nothing is missing it changes nothing and needs
# no root; else it runs apt-get, through sudo unless it already is root.
set -eu

purpose=${1:-build}
case $purpose in
build | test) ;;
*)
    echo "usage: ci/install.sh build|test" >&2
    exit 2
    ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
    if [ -x "${HOME:-/root}/.cargo/bin/cargo" ]; then
        echo "weir: cargo is in ${HOME:-/root}/.cargo/bin, which is not in PATH." >&2
        echo "      Run:  . ${HOME:-/root}/.cargo/env" >&2
    else
        echo "weir: a Rust toolchain (1.89 or later) is needed; https://rustup.rs has it." >&2
    fi
    exit 2
fi

# True if one of the paths that the shell expanded from a pattern exists.
any_exists() {
    for path in "$@"; do
        [ -e "$path" ] && return 0
    done
    return 1
}

has_libclang() {
    if [ -n "${LIBCLANG_PATH:-}" ]; then
        return 0
    fi
    any_exists /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib/libclang*.so* \
        /usr/local/lib/libclang*.so* /usr/lib64/libclang*.so* || return 1
    # libclang without clang's own headers fails on the first #include <stddef.h>.
    any_exists /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h \
        /usr/local/lib/clang/*/include/stddef.h /usr/lib64/clang/*/include/stddef.h
}

has_postgres() {
    any_exists /usr/lib/postgresql/*/bin/initdb || command -v initdb >/dev/null 2>&1
}

has_mariadb() {
    for name in mariadbd mariadb-install-db my_print_defaults; do
        command -v "$name" >/dev/null 2>&1 || [ -x "/usr/sbin/$name" ] || return 1
    done
}

has_chromium() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

missing=""
why=""
need() {
    missing="$missing $1"
    why="$why
        $1: $2"
}

command -v make >/dev/null 2>&1 || need make "runs the Makefile"
command -v cc >/dev/null 2>&1 || need gcc "links Rust programs and compiles PostgreSQL's grammar"
any_exists /usr/include/stdio.h || need libc6-dev "the C library's headers"
has_libclang || need libclang-dev "generates the bindings to PostgreSQL's grammar"
if [ "$purpose" = test ]; then
    has_postgres || need postgresql "the server that the differential tests compare Weir with"
    has_mariadb || need "mariadb-server-core mariadb-client-core" "a server whose aborts are measured beside Weir's"
    command -v z3 >/dev/null 2>&1 || need z3 "the solver that proves what the analysis' rules leave open"
    has_chromium || need chromium-headless-shell "the browser in which the report is looked at"
    python3 -m pip --version >/dev/null 2>&1 || need python3-pip "installs the driver psycopg, which a test drives"
    command -v npm >/dev/null 2>&1 || need npm "installs the driver node-postgres, which a test drives"
    command -v javac >/dev/null 2>&1 || need default-jdk-headless "runs the test of the JDBC driver"
    command -v go >/dev/null 2>&1 || [ -x /usr/local/go/bin/go ] ||
        need golang-go "installs the driver lib/pq, which a test drives"
    ruby -e 'require "active_record"; require "pg"' >/dev/null 2>&1 ||
        need "ruby-activerecord ruby-pg" "ActiveRecord and its driver, which a test drives"
    command -v mvn >/dev/null 2>&1 || need maven "installs the JDBC driver, which a test drives"
fi

[ -n "$missing" ] || exit 0

echo "weir: this machine lacks:$why"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "weir: there is no apt-get here. Install the equivalents of these Debian packages, then" >&2
    echo "      run the same command again:$missing" >&2
    exit 2
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "weir: installing needs root, and there is no sudo. As root, run:" >&2
        echo "      apt-get update && apt-get install --no-install-recommends$missing" >&2
        exit 2
    fi
    as_root="sudo"
fi

echo "weir: running: ${as_root:+sudo }apt-get update"
echo "weir: running: ${as_root:+sudo }apt-get install --yes --no-install-recommends$missing"
# What apt-get says is shown only if it fails.
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# shellcheck disable=SC2086 # a list of package names, one word each
if ! { $as_root apt-get -qq update &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends $missing; } \
    </dev/null >"$said" 2>&1; then
    cat "$said" >&2
    echo "weir: apt-get has failed, see above; mend it and run the same command again" >&2
    exit 2
fi
echo "weir: installed."
