#!/usr/bin/env bash
# In the guest: what a server does to its block device when it stops or starts at a bad moment, also when it is killed while it takes
# its device over. That takes the program with faults to be planted: `cargo build --workspace --locked --features forebay/planted-faults`.
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

# Serves, and waits until the device can be used once more.
back() {
    local count
    count=$(grep -c '^ready /dev/ublkb' serve.out)
    serve
    ready /dev/ublkb $((count + 1))
}

# Asked a second time to stop while it still looks who has the device open: it stops at once, and the device stays.
back
exec 7< "$device"
kill -TERM $server
sleep 0.3
begun=$(date +%s%N)
kill -TERM $server
wait $server || die "no clean stop when asked twice"
took_ms=$((($(date +%s%N) - begun) / 1000000))
[ "$took_ms" -lt 1500 ] || die "asked twice it took $took_ms ms to stop"
[ -e "$device" ] || die "taken away under who had it open"
back
exec 7<&-
say "asked to stop twice: $took_ms ms"

# Regression: the device of an export that went from the configuration while no server ran stayed for good.
mount "$device" mnt
cmp pattern mnt/pattern || die "other data"
kill -9 $server
wait $server || true
cp pool.toml with-export.toml
sed -i '/^\[\[export\]\]/,/^ublk/d' pool.toml
serve
ready 'without exports' 1
for _ in $(seq 50); do if grep -q 'is in use, but no export has it' serve.log; then break; fi; sleep 0.1; done
grep -q 'ublkb[0-9]* of "db" is in use, but no export has it' serve.log || die "not said that it is in use and nobody's"
[ -e "$device" ] || die "taken away while it was mounted"
kill $server
wait $server || die "no clean stop"
cp with-export.toml pool.toml
back
cmp pattern mnt/pattern || die "other data"
umount mnt
kill -9 $server
wait $server || true
sed -i '/^\[\[export\]\]/,/^ublk/d' pool.toml
serve
ready 'without exports' 2
gone "$device"
grep -q 'was taken away: no export has it any more' serve.log || die "not said that it was taken away"
kill $server
wait $server || die "no clean stop"
cp with-export.toml pool.toml
say "a device without an export"

# Regression: a server that was killed between the two halves of taking its device over left one that nobody could take over.
planted=${FOREBAY%/*/forebay}/debug/forebay
[ -x "$planted" ] || die "no $planted: build it as the first lines of this script say"
back
device=$(sed -n 's/^ready \(\/dev\/ublkb.*\)/\1/p' serve.out | tail -n 1)
mount "$device" mnt
for points in 'fetched begun' 'begun fetched'; do
    kill -9 $server
    wait $server || true
    for point in $points; do
        status=0
        FOREBAY_PLANT=ublk_recovery_$point timeout 60 "$planted" serve pool.toml > other.out 2>> serve.log ||
            status=$?
        [ $status -eq 137 ] || die "not killed at $point ($status): is $planted built with forebay/planted-faults?"
    done
    back
    echo 1 > /proc/sys/vm/drop_caches
    cmp pattern mnt/pattern || die "other data after $points"
    cp pattern mnt/after
    sync
    say "killed while it took its device over: $points"
done
umount mnt
kill -TERM $server
wait $server || die "no clean stop"
gone "$device"

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
