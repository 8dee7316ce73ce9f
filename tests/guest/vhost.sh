#!/usr/bin/env bash
# In the guest: a disk by vhost-user-blk with XFS on it; its server, on the machine outside, is killed under fio, stopped and
# started (vhost.host).
# shellcheck disable=SC2086  # figures
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"
LOG=/job/serve.log
modprobe virtio_blk
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

write_and_read $device
killed() { outside kill "$1"; }
killed_under_load killed 1 2

# A clean stop under a mounted file system: the guest waits for the next server.
outside stop 3
late_write outside start 4
kernel_is_content
say good
