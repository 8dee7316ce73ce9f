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

# What is written with and without zeros and discards is what is read.
head -c 4M /dev/urandom > pattern
dd if=pattern of=$device bs=64k oflag=direct status=none
blkdiscard -o 1M -l 1M $device
blkdiscard -z -o 2M -l 1M $device
dd if=pattern of=$device bs=4k seek=800 skip=0 count=1 oflag=direct,dsync conv=notrunc status=none
cp pattern expected
dd if=/dev/zero of=expected bs=1M seek=1 count=2 conv=notrunc status=none
dd if=pattern of=expected bs=4k seek=800 count=1 conv=notrunc status=none
dd if=$device bs=64k count=64 iflag=direct status=none | cmp - expected || die "other data"
say "writes, discard, zeros, FUA: as written"

mkfs.xfs -q -f $device
mkdir -p mnt
mount $device mnt
fio --name=verified --directory=mnt --size=24m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --fsync=64 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --output=fio.log &
load=$!
for round in 2 3; do
    sleep 1
    kill -0 $load 2>/dev/null || die "fio was over before the kill: make it longer"
    kill -9 $server
    wait $server || true
    sleep 0.5
    serve
    ready /dev/ublkb $round
    say "killed under load, and back"
done
wait $load || { cat fio.log; die "fio saw an error"; }
grep -q 'err= 0' fio.log || die "fio saw an error"
say "fio verified: no error, nothing lost"
cp pattern mnt/pattern
sync

# A clean stop under a mounted file system: the device waits for the next server.
kill $server
wait $server || die "no clean stop"
grep -q 'is in use' serve.log || die "not said that it is in use"
(sleep 1; echo late > mnt/late; sync) &
writer=$!
serve
ready /dev/ublkb 4
wait $writer || die "a write during the restart failed"
umount mnt
xfs_repair -n $device > repair.log 2>&1 || die "xfs_repair: $(tail -n 2 repair.log)"
mount $device mnt
cmp pattern mnt/pattern || die "other data"
[ "$(cat mnt/late)" = late ] || die "a late write is lost"
umount mnt
say "stopped and started under a mounted file system"

# Unused, it goes with its server.
begun=$SECONDS
kill $server
wait $server || die "no clean stop"
[ $((SECONDS - begun)) -lt 10 ] || die "the stop took long"
gone $device
if dmesg | grep -iE 'I/O error|hung|BUG:|WARNING:'; then die "the kernel complains"; fi
say good
