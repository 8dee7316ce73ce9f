#!/usr/bin/env bash
# In the guest: a pool over two files, its disk as /dev/ublkbN with XFS on it; the server killed under fio, restarted, stopped.
# shellcheck disable=SC2086  # figures
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"

# Regression: the section with `ublk` was not found behind another one of the same name.
create <<'TOML'
[[export]]
nbd = "unix:/run/db.sock"
[[export]]
ublk = "auto"
TOML
serve
ready /dev/ublkb 1
device=$(sed -n 's/^ready \(\/dev\/ublkb.*\)/\1/p' serve.out)
queue=/sys/block/${device#/dev/}/queue
[ "$(cat $queue/write_cache) $(cat $queue/fua)" = "write back 1" ] || die "no flushes would come"
say "$device is there"

write_and_read "$device"
kill_and_serve() {
    kill -9 $server
    wait $server || true
    sleep 0.5
    serve
    ready /dev/ublkb "$1"
}
killed_under_load kill_and_serve 2 3

# A clean stop under a mounted file system: the device waits for the next server.
kill $server
wait $server || die "no clean stop"
grep -q 'is in use' serve.log || die "not said that it is in use"
serve_again() {
    serve
    ready /dev/ublkb 4
}
late_write serve_again

# Unused, it goes with its server.
begun=$SECONDS
kill $server
wait $server || die "no clean stop"
[ $((SECONDS - begun)) -lt 10 ] || die "the stop took long"
gone $device
kernel_is_content
say good
