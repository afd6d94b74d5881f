#!/usr/bin/env bash
# What the tests run for real beside Python: PostgreSQL's server binaries and Node.js 20 or later.
# As root on Debian or Ubuntu it installs what is missing; elsewhere it says what to install, and the tests that need it are
# skipped (with CI=true they fail).
set -euo pipefail

missing=()

node_major() { node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/'; }

has_postgres() {
    command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

has_postgres || missing+=(postgresql)
command -v node >/dev/null && [ "$(node_major)" -ge 20 ] || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)

[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Debian's postgresql would start a cluster of its own; the tests start theirs.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
    echo "sless: some tests need more than is here; on Debian and Ubuntu: apt-get install ${missing[*]}" >&2
fi

if [ "${CI:-}" = true ] && { ! has_postgres || [ "$(node_major || echo 0)" -lt 20 ]; }; then
    echo "sless: PostgreSQL or Node.js 20 is still missing (node is $(node --version 2>/dev/null || echo absent))" >&2
    exit 1
fi
