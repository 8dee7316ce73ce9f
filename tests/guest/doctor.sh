#!/usr/bin/env bash
# In the guest: `forebay doctor` changes settings of a real kernel, is killed while they are changed, and puts them back.
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"
LOG=said
export COLUMNS=300

modprobe null_blk nr_devices=1 gb=1 submit_queues=2
modprobe mq-deadline 2>/dev/null || true
queue=/sys/block/nullb0/queue
# Not the kernel's own values, so that what it chooses itself is not taken for what was there. A scheduler changes the two others.
echo mq-deadline > $queue/scheduler
echo 77 > $queue/nr_requests
echo 1234 > $queue/wbt_lat_usec 2>/dev/null || true
echo 1 > $queue/add_random
echo 321 > $queue/iosched/read_expire
echo always > /sys/kernel/mm/transparent_hugepage/defrag
echo 61 > /proc/sys/vm/swappiness

# One process for all: the guest is slow.
snapshot() {
    grep -asH '' $queue/* $queue/iosched/* /sys/kernel/mm/transparent_hugepage/* /proc/sys/vm/swappiness /proc/sys/kernel/numa_balancing \
        /sys/module/pcie_aspm/parameters/policy /sys/devices/system/cpu/cpufreq/policy*/* || true
}
same() {
    snapshot > after
    cmp -s before after || { diff before after || true; die "$1: not as before"; }
}
# Exit 1 is a finding: the kernel may refuse a setting.
found() {
    local status=0
    "$FOREBAY" "$@" > said 2>&1 || status=$?
    [ $status -le 1 ] || { cat said; die "$*: exit $status"; }
}
snapshot > before

found doctor --apply measure --device /dev/nullb0 --dry-run
same "--dry-run"
found doctor --apply measure --device /dev/nullb0
snapshot > applied
! cmp -s before applied || { cat said; die "nothing was changed"; }
grep -q 'scheduler:\[none\]' applied || { cat said applied; die "the scheduler is still there"; }
grep -q 'swappiness:1$' applied || die "swappiness was not changed"
"$FOREBAY" doctor --verify > said || { cat said; die verify; }
echo 1 > $queue/iostats
if "$FOREBAY" doctor --verify > said 2>&1; then die "a setting that was changed back was not seen"; fi
grep -q 'statistics: .*says 1' said || { cat said; die "what was changed back is not named"; }
echo 0 > $queue/iostats
"$FOREBAY" doctor --restore > said || { cat said; die restore; }
same "restored"
if "$FOREBAY" doctor --restore > said 2>&1; then die "restored twice"; fi
say "applied, verified, put back: $(grep -c . before) lines as before"

# Stands still on the ladder, by its name; a copy of sleep, as no service may be started here.
cp "$(command -v sleep)" irqbalance
./irqbalance 100000 &
balancer=$!
state() { awk '{ print $3 }' /proc/$balancer/stat; }
for round in 1 2; do
    "$FOREBAY" doctor --ladder --target /dev/nullb0 --runtime 1h > ladder.out 2>&1 &
    doctor=$!
    for _ in $(seq 600); do
        snapshot > now
        cmp -s before now || break
        kill -0 $doctor 2>/dev/null || { cat ladder.out; die "the ladder has ended"; }
        sleep 0.05
    done
    ! cmp -s before now || die "the ladder changes nothing"
    kill -9 $doctor
    wait $doctor 2>/dev/null || true
    [ "$(state)" = T ] || die "irqbalance does not stand still: $(state)"
    "$FOREBAY" doctor --restore > said || { cat said; die "restore after kill -9"; }
    [ "$(state)" = S ] || die "irqbalance does not go on: $(state)"
    same "killed, round $round"
done
say "killed on the ladder twice, put back"

"$FOREBAY" doctor --ladder --target /dev/nullb0 --runtime 1h > ladder.out 2>&1 &
doctor=$!
for _ in $(seq 600); do
    snapshot > now
    cmp -s before now || break
    sleep 0.05
done
kill -INT $doctor
wait $doctor || { cat ladder.out; die "interrupted: exit $?"; }
grep -q PARTIAL ladder.out || { cat ladder.out; die "not said to be partial"; }
same interrupted

"$FOREBAY" doctor --ladder --target /dev/nullb0 --destroy-data --rounds 3 --runtime 100ms > said 2>&1 || { cat said; die ladder; }
for rung in irq-balancing scheduler swap 'calls: sync' pinned 'write QD16'; do
    grep -q "$rung" said || { cat said; die "no rung $rung"; }
done
same "climbed"
[ "$(state)" = S ] || die "irqbalance does not go on: $(state)"
if grep -q 'not there: irq-balancing' said; then cat said; die "irqbalance was not made to stand still"; fi

say "climbed: $(grep -c '^not there\|^note: not there' said) rungs are not there"

# What was measured stands beside the audit, of this machine alone.
"$FOREBAY" doctor --ladder --target /dev/nullb0 --rounds 3 --runtime 20ms --output json > ladder.json 2> said || { cat said; die ladder; }
found doctor --device /dev/nullb0 --measured ladder.json
grep -q 'measured here: .*on rung "scheduler"' said || { cat said; die "what was measured is not shown"; }
grep -q 'Measured on this machine, in this boot: ' said || { cat said; die "where is not said"; }
say "measured, shown: $(grep -c 'measured here: ' said) effects"

if [ -c /dev/cpu_dma_latency ]; then
    # shellcheck disable=SC2016
    "$FOREBAY" doctor --hold -- bash -c 'ls -l /proc/$PPID/fd | grep -q cpu_dma_latency' || die "the file is not open while the command runs"
    if "$FOREBAY" doctor --hold -- false 2> said; then die "a command that failed is no finding"; fi
    say "held"
else
    "$FOREBAY" doctor --hold -- true 2> said && die "held without a file to hold"
    grep -q cpu_dma_latency said || die "the reason is not said"
    say "not held: no /dev/cpu_dma_latency"
fi
