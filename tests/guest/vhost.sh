#!/usr/bin/env bash
# In the guest: a disk by vhost-user-blk with XFS on it; its server, on the machine outside, is killed under fio, stopped and
# started (vhost.host).
# shellcheck disable=SC2086  # figures
set -euo pipefail
cd /root
modprobe virtio_blk
modprobe xfs
say() { echo "guest: $*"; }
die() { say "FAILED: $*"; tail -n 5 /job/serve.log; dmesg | tail -n 5; exit 1; }
# outside WISH NUMBER
outside() {
    touch /job/$1.$2
    for _ in $(seq 300); do [ ! -e /job/done.$2 ] || return 0; sleep 0.1; done
    die "nobody did $1"
}

device=/dev/vda
for _ in $(seq 50); do [ ! -b $device ] || break; sleep 0.1; done
[ -b $device ] || die "no $device"
queue=/sys/block/vda/queue
[ "$(cat /sys/block/vda/size)" = 1048576 ] || die "another size"
[ "$(cat $queue/write_cache)" = "write back" ] || die "no flushes would come"
[ "$(cat $queue/discard_max_bytes) $(cat $queue/write_zeroes_max_bytes)" = "1073741824 1073741824" ] || die "no discards"
[ "$(cat $queue/physical_block_size)" = 4096 ] || die "another block size"
[ -d /sys/block/vda/mq/1 ] || die "not two queues"
[ "$(cat /sys/block/vda/serial)" = db ] || die "another serial number"
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
say "writes, discard, zeros, flush: as written"

mkfs.xfs -q -f $device
mkdir -p mnt
mount $device mnt
fio --name=verified --directory=mnt --size=24m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --fsync=64 \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --output=fio.log &
load=$!
for round in 1 2; do
    sleep 1
    kill -0 $load 2>/dev/null || die "fio was over before the kill: make it longer"
    outside kill $round
    say "killed under load, and back"
done
wait $load || { cat fio.log; die "fio saw an error"; }
grep -q 'err= 0' fio.log || die "fio saw an error"
say "fio verified: no error, nothing lost"
cp pattern mnt/pattern
sync

# A clean stop under a mounted file system: the guest waits for the next server.
outside stop 3
(echo late > mnt/late; sync) &
writer=$!
sleep 1
outside start 4
wait $writer || die "a write during the restart failed"
umount mnt
xfs_repair -n $device > repair.log 2>&1 || die "xfs_repair: $(tail -n 2 repair.log)"
mount $device mnt
cmp pattern mnt/pattern || die "other data"
[ "$(cat mnt/late)" = late ] || die "a late write is lost"
umount mnt
say "stopped and started under a mounted file system"
if dmesg | grep -iE 'I/O error|hung|BUG:|WARNING:'; then die "the kernel complains"; fi
say good
