#!/usr/bin/env bash
# In the guest: a pool over two files, its disk as /dev/ublkbN with XFS on it; the server killed under fio, restarted, stopped.
# shellcheck disable=SC2086  # figures
set -euo pipefail
FOREBAY=$1
cd /root
modprobe ublk_drv
modprobe xfs
say() { echo "guest: $*"; }
die() { say "FAILED: $*"; tail -n 5 serve.log; dmesg | tail -n 5; exit 1; }

truncate -s 256M fast.img
truncate -s 768M capacity.img
cat > pool.toml <<'TOML'
[pool]
name = "guest"
[[fast]]
target = "/root/fast.img"
[[capacity]]
target = "/root/capacity.img"
[[disk]]
name = "db"
size = "512MiB"
# Regression: the section with `ublk` was not found behind another one of the same name.
[[export]]
nbd = "unix:/run/db.sock"
[[export]]
ublk = "auto"
[memory]
limit = "256MiB"
[server]
control = "/run/forebay.control"
TOML
server=
serve() {
    $FOREBAY serve pool.toml >> serve.out 2>> serve.log &
    server=$!
}
ready() {
    for _ in $(seq 300); do
        [ "$(grep -c '^ready /dev/ublkb' serve.out)" -lt "$1" ] || return 0
        kill -0 $server 2>/dev/null || die "the server has ended"
        sleep 0.1
    done
    die "no device after 30 s"
}
$FOREBAY create pool.toml > /dev/null 2>> serve.log || die create
serve
ready 1
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
    ready $round
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
ready 4
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
for _ in $(seq 50); do [ -e $device ] || break; sleep 0.1; done
[ ! -e $device ] || die "$device is left"
if dmesg | grep -iE 'I/O error|hung|BUG:|WARNING:'; then die "the kernel complains"; fi
say good
