# Shared by the client scripts: starts the server under test, cleans up what a script made, checks strictly.
# shellcheck shell=bash
#
# usage of each script: tests/clients/NAME [--server forebay|nbdkit|null]
#   forebay  the binary in $FOREBAY_BIN (default target/release/forebay), on two file targets
#   nbdkit   a known good server: shows that the script itself is right
#   null     bench/null-nbd, which forgets every write: shows that the script can fail
# Exit 0 good, 1 a check failed, 2 it could not be run.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
FOREBAY_BIN=${FOREBAY_BIN:-$TOP/target/release/forebay}
SERVER=forebay
READY_LIMIT_S=60
STOP_LIMIT_S=120

while [ $# -gt 0 ]; do
    case $1 in
    --server) SERVER=${2:?--server needs a name}; shift 2 ;;
    *) echo "$0: unknown option $1" >&2; exit 2 ;;
    esac
done

# The distribution's own python3 first: it is the one that has libnbd.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
WORK=$(mktemp -d "${TMPDIR:-/tmp}/forebay-clients.XXXXXX")
CONFIG=$WORK/forebay.toml
SOCK=$WORK/nbd.sock
URI="nbd+unix:///?socket=$SOCK"
SERVER_PID=
UNDO=()

# What was made last is undone first; each step on its own, so that one failure leaves no more behind than it must.
undo() { UNDO+=("$*"); }
clean_up() {
    local status=$? i
    trap - EXIT
    set +e
    for ((i = ${#UNDO[@]} - 1; i >= 0; i--)); do (eval "${UNDO[i]}") >/dev/null 2>&1; done
    if [ -n "$SERVER_PID" ] && kill -0 "$SERVER_PID" 2>/dev/null; then
        kill -TERM "$SERVER_PID"
        wait_gone "$SERVER_PID" 20 || kill -KILL "$SERVER_PID"
    fi
    if [ "$status" -ne 0 ] && [ -s "$WORK/server.err" ]; then
        echo "--- the server's last words"
        tail -n 30 "$WORK/server.err"
    fi
    rm -rf --one-file-system "$WORK"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "== $*"; }

# expect_eq WHAT EXPECTED GOT
expect_eq() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
# expect_failure WHAT COMMAND...: the command must not succeed.
expect_failure() {
    local what=$1
    shift
    if "$@" >/dev/null 2>&1; then fail "$what: succeeded where it must not"; fi
}

wait_gone() { # PID SECONDS
    local try
    for ((try = 0; try < $2 * 20; try++)); do
        # A dead child stays a zombie until waited for.
        [ -e "/proc/$1/stat" ] || return 0
        [ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null || echo Z)" != Z ] || return 0
        sleep 0.05
    done
    return 1
}

# A pool over two sparse files. start_server SIZE_MIB [FAST_MIB] [CAPACITY_MIB]
start_server() {
    SIZE_MIB=$1
    local fast_mib=${2:-$((SIZE_MIB / 2 + 256))} capacity_mib=${3:-$((SIZE_MIB * 2 + 1024))}
    case $SERVER in
    forebay)
        [ -x "$FOREBAY_BIN" ] || { echo "$FOREBAY_BIN is missing: cargo build --release" >&2; exit 2; }
        truncate -s "${fast_mib}M" "$WORK/fast.img"
        truncate -s "${capacity_mib}M" "$WORK/capacity.img"
        cat >"$CONFIG" <<TOML
[pool]
name = "clients"

[[fast]]
target = "$WORK/fast.img"

[[capacity]]
target = "$WORK/capacity.img"
band = "16MiB"

[[disk]]
name = "disk"
size = "${SIZE_MIB}MiB"

[[export]]
disk = "disk"
nbd = "unix:$SOCK"
TOML
        "$FOREBAY_BIN" create "$CONFIG" >"$WORK/create.out" 2>"$WORK/server.err" || fail "forebay create: $(cat "$WORK/server.err")"
        ;;
    nbdkit) truncate -s "${SIZE_MIB}M" "$WORK/disk.img" ;;
    null) [ -x "$TOP/bench/null-nbd/target/release/null-nbd" ] ||
        cargo build --release --quiet --locked --manifest-path "$TOP/bench/null-nbd/Cargo.toml" ;;
    *) echo "no server is called $SERVER" >&2; exit 2 ;;
    esac
    launch_server
}

# Each server runs in a session of its own: what is meant for this script's group, Ctrl-C or a time limit, is not for it.
launch_server() {
    local try
    : >"$WORK/serve.out"
    case $SERVER in
    forebay) setsid "$FOREBAY_BIN" serve "$CONFIG" >"$WORK/serve.out" 2>>"$WORK/server.err" & SERVER_PID=$! ;;
    null) setsid "$TOP/bench/null-nbd/target/release/null-nbd" --size-mib "$SIZE_MIB" "$SOCK" >"$WORK/serve.out" 2>>"$WORK/server.err" & SERVER_PID=$! ;;
    nbdkit)
        # In the foreground it would die with its launcher; in the background its pid file comes a little later.
        rm -f "$WORK/nbdkit.pid"
        nbdkit -U "$SOCK" -P "$WORK/nbdkit.pid" file "$WORK/disk.img"
        for ((try = 0; try < READY_LIMIT_S * 20; try++)); do
            [ -s "$WORK/nbdkit.pid" ] && break
            sleep 0.05
        done
        SERVER_PID=$(cat "$WORK/nbdkit.pid")
        echo "ready $URI" >"$WORK/serve.out"
        ;;
    esac
    for ((try = 0; try < READY_LIMIT_S * 20; try++)); do
        if grep -q '^ready nbd' "$WORK/serve.out"; then return 0; fi
        kill -0 "$SERVER_PID" 2>/dev/null || fail "the server ended before it was ready"
        sleep 0.05
    done
    fail "no 'ready URI' line within $READY_LIMIT_S s"
}

# Stops it with SIGTERM; Forebay must exit with 0 and leave a pool that `verify` finds clean.
stop_server() {
    local pid=$SERVER_PID status=0
    kill -TERM "$pid" || fail "the server was gone before it was stopped"
    wait_gone "$pid" "$STOP_LIMIT_S" || fail "the server did not stop within $STOP_LIMIT_S s of SIGTERM"
    SERVER_PID=
    case $SERVER in
    forebay)
        wait "$pid" || status=$?
        expect_eq "exit code of serve after SIGTERM" 0 "$status"
        "$FOREBAY_BIN" verify "$CONFIG" >"$WORK/verify.out" 2>&1 || fail "forebay verify: $(tail -n 20 "$WORK/verify.out")"
        ;;
    null) wait "$pid" || true; rm -f "$SOCK" ;;
    nbdkit) rm -f "$SOCK" ;;
    esac
}

# Everything written must be there again.
restart_server() {
    stop_server
    launch_server
}

# random_file PATH MIB SEED: reproducible bytes, so that a failure can be repeated.
random_file() {
    python3 - "$1" "$2" "$3" <<'PY'
import random, sys
path, mib, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
source = random.Random(seed)
with open(path, "wb") as out:
    for _ in range(mib):
        out.write(source.randbytes(1 << 20))
PY
}

# sparse_file PATH MIB SEED: data and holes of many lengths, odd 512-byte edges included.
sparse_file() {
    python3 - "$1" "$2" "$3" <<'PY'
import random, sys
path, size, seed = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3])
source = random.Random(seed)
with open(path, "wb") as out:
    out.truncate(size)
    at = 0
    while at < size:
        length = min(512 * source.choice([1, 3, 8, 9, 64, 129, 2048, 8192]), size - at)
        if source.random() < 0.5:
            out.seek(at)
            out.write(source.randbytes(length))
        at += length
PY
}

# only_forebay WHAT: a check that only Forebay can answer; said aloud with any other server.
only_forebay() {
    [ "$SERVER" = forebay ] && return 0
    echo "   (not asked of $SERVER: $*)"
    return 1
}
