#!/usr/bin/env bash
# In the guest: `forebay attach` and `detach`, by ublk and by nbd-client; the server killed while an attached disk is mounted.
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"

create <<'TOML'
[[disk]]
name = "bare"
size = "16MiB"
[[export]]
disk = "db"
nbd = "unix:/run/db.sock"
TOML
refused() {
    local expected=$1
    shift
    if "$FOREBAY" "$@" > said 2>&1; then die "$* was not refused"; fi
    grep -qE "$expected" said || die "$*: $(cat said)"
}
refused 'no server answers' attach pool.toml db
serve
ready nbd 1
refused 'is not exported' attach pool.toml bare
refused 'no disk "other"' attach pool.toml other
refused 'has no block device' detach pool.toml db

device=$("$FOREBAY" attach pool.toml db) || die attach
case $device in /dev/ublkb*) ;; *) die "attach said $device" ;; esac
[ "$("$FOREBAY" attach db pool.toml)" = "$device" ] || die "a second attach gave another device"
[ "$(blockdev --getsize64 "$device")" = $((512 << 20)) ] || die "of another size"
mkfs.xfs -q "$device"
mkdir -p mnt
mount "$device" mnt
refused 'is in use: unmount it' detach pool.toml db
head -c 8M /dev/urandom > pattern
cp pattern mnt/pattern
sync
kill -9 $server
wait $server || true
(sleep 1; cp pattern mnt/late; sync) &
writer=$!
serve
ready nbd 2
wait $writer || die "a write during the restart failed"
[ "$("$FOREBAY" attach pool.toml db)" = "$device" ] || die "not the device of before"
umount mnt
mount "$device" mnt
cmp pattern mnt/pattern || die "other data"
cmp pattern mnt/late || die "other data"
umount mnt
"$FOREBAY" detach pool.toml db > /dev/null || die detach
gone "$device"
say "attached, killed while mounted, back, detached"

for _ in 1 2 3; do
    device=$("$FOREBAY" attach pool.toml db) || die "attach again"
    # What lies there of the file system is written once more, through the page cache.
    dd if="$device" of=some bs=1M count=8 status=none
    dd if=some of="$device" bs=1M conv=notrunc status=none
    "$FOREBAY" detach pool.toml db > /dev/null || die "detach again"
    gone "$device"
done
say "three times more"
"$FOREBAY" attach pool.toml db > /dev/null
kill $server
wait $server || die "no clean stop"
gone "$device"

# The kernel lets go of a dead server's rings some time after its end.
for _ in $(seq 50); do
    if modprobe -r ublk_drv 2> said; then break; fi
    sleep 0.1
done
[ ! -d /sys/module/ublk_drv ] || die "ublk_drv stays: $(cat said)"
serve
ready nbd 3
refused 'modprobe nbd' attach pool.toml db
modprobe nbd
device=$("$FOREBAY" attach pool.toml db) || die "attach by nbd-client"
case $device in /dev/nbd*) ;; *) die "attach said $device" ;; esac
[ "$("$FOREBAY" attach pool.toml db)" = "$device" ] || die "a second attach gave another device"
mount "$device" mnt
cmp pattern mnt/late || die "other data"
refused 'is in use: unmount it' detach pool.toml db
umount mnt
"$FOREBAY" detach pool.toml db > /dev/null || die "detach of nbd-client's"
refused 'has no block device' detach pool.toml db
kill $server
wait $server || die "no clean stop"
if dmesg | grep -iE 'hung|BUG:|WARNING:'; then die "the kernel complains"; fi
say good
