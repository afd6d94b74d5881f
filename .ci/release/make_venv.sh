#!/usr/bin/env bash
# make_venv.sh PYTHON FOLDER: creates a virtual environment, or says in one sentence what is missing.
set -euo pipefail

python=${1:-}
folder=$2

fail() {
    printf 'sless: %s\n' "$@" >&2
    exit 1
}

[ -n "$python" ] || fail "no Python found, 3.11 is needed: apt-get install python3.11 python3.11-venv"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$version" = 3.11 ] || fail "Python 3.11 is needed, $python is $version." \
    "Install it (apt-get install python3.11 python3.11-venv) or name it: make PYTHON=/path/to/python3.11 …"

if ! output=$("$python" -m venv "$folder" 2>&1); then
    rm -rf "$folder"
    printf '%s\n' "$output" >&2
    fail "$python cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3.11-venv"
fi
