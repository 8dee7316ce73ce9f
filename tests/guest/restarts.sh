#!/usr/bin/env bash
# In the guest: what a server does to its block device when it stops or starts at a bad moment.
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"

create <<'TOML'
[[export]]
ublk = "auto"
[metrics]
listen = "127.0.0.1:9650"
TOML
serve
ready /dev/ublkb 1
device=$(sed -n 's/^ready \(\/dev\/ublkb.*\)/\1/p' serve.out)
mkfs.xfs -q -f "$device"
mkdir -p mnt
mount "$device" mnt
head -c 4M /dev/urandom > pattern
cp pattern mnt/pattern
sync

# Regression: a disk that had grown under a mounted device kept every later server from starting.
"$FOREBAY" disk pool.toml resize db 520MiB > /dev/null || die "no resize"
kill -9 $server
wait $server || true
serve
ready /dev/ublkb 2
grep -q 'keeps its size of 512 MiB' serve.log || die "not said that it keeps its size"
cmp pattern mnt/pattern || die "other data"
say "grown under a mounted device, killed, and back"

# Regression: a start that failed after it had begun to take the device over kept every later one from it.
kill -9 $server
wait $server || true
python3 -c 'import socket, time; s = socket.create_server(("127.0.0.1", 9650)); print("here", flush=True); time.sleep(100)' > holder &
holder=$!
for _ in $(seq 100); do [ ! -s holder ] || break; sleep 0.1; done
if timeout 60 "$FOREBAY" serve pool.toml > other.out 2>&1; then die "it started although the port was taken"; fi
grep -q 9650 other.out || die "another failure: $(cat other.out)"
kill $holder
wait $holder || true
serve
ready /dev/ublkb 3
cp mnt/pattern copied
cmp pattern copied || die "other data"
umount mnt
say "a start that failed, and one that did not"

# Opened without claiming it: a database would do so. It is in use all the same.
exec 7< "$device"
kill $server
wait $server || die "no clean stop"
grep -q 'is in use' serve.log || die "not said that it is in use"
[ -e "$device" ] || die "taken away under who had it open"
serve
ready /dev/ublkb 4
exec 7<&-

# Regression: who looked for partitions when the server was asked to stop waited for it, and it for him, for ever.
kill -STOP $server
blockdev --rereadpt "$device" &
reader=$!
sleep 0.3
kill -TERM $server
kill -CONT $server
begun=$SECONDS
wait $server || die "no clean stop"
[ $((SECONDS - begun)) -lt 14 ] || die "the stop took long"
wait $reader || true
serve
for _ in $(seq 300); do [ "$(grep -c '^ready /dev/ublkb' serve.out)" -lt 5 ] || break; sleep 0.1; done
kill -TERM $server
wait $server || die "no clean stop"
gone "$device"
say "stopped while somebody looked for partitions"

# Asked to stop before its device is there.
serve
sleep 0.2
kill -TERM $server
wait $server || true
count=$(grep -c '^ready /dev/ublkb' serve.out)
serve
ready /dev/ublkb $((count + 1))
kill -TERM $server
wait $server || die "no clean stop"
kernel_is_content
say good
