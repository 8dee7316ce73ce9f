#!/usr/bin/env bash
# In the guest: `forebay doctor` asks drives, emulated ones, what no file says, captures what they answered, and reads it again.
set -euo pipefail
# shellcheck source=tests/guest/lib
source "$(dirname "$0")/lib" "$@"
LOG=said
export COLUMNS=300

modprobe nvme
modprobe ahci
modprobe sd_mod
for _ in $(seq 100); do
    [ ! -b /dev/nvme0n1 ] || [ ! -b /dev/sda ] || break
    sleep 0.1
done
for drive in nvme0n1 sda; do [ -b /dev/$drive ] || die "/dev/$drive is not there"; done

# Exit 1 is a finding.
doctor() {
    local status=0
    "$FOREBAY" doctor "$@" > said 2>&1 || status=$?
    [ $status -le 1 ] || { cat said; die "$*: exit $status"; }
}
# The emulated drive has one power state, of 25 W, and is new.
doctor --device /dev/nvme0n1
grep -q '  wear of nvme0n1: 0 % of its life is used' said || die "wear is not said"
grep -q '  power-state of nvme0n1: it works in power state 0, of at most 25 W; of its 1 states it sleeps in 0' said || die "the power state is not said"
doctor --device /dev/sda
grep -q 'spin-down of sda: .*Advanced Power Management' said || die "the disk was not asked"
# As somebody who may not ask: that is said.
su nobody -s /bin/bash -c "COLUMNS=300 $FOREBAY doctor --device /dev/nvme0n1" > said 2>&1 || true
grep -q 'wear of nvme0n1: cannot open /dev/nvme0n1' said || { cat said; die "that it may not be asked is not said"; }

doctor --capture tree
for drive in nvme0n1 sda; do
    [ -s tree/forebay/drives/$drive.json ] || die "no answers of $drive in the capture"
done
if grep -rq SECRET tree; then die "a serial number is in the capture"; fi
doctor --root tree --device nvme0n1
grep -q '  wear of nvme0n1: 0 % of its life is used' said || { cat said; die "wear is not in the capture"; }
say "asked, captured, read again"
