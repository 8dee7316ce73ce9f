# shellcheck shell=bash
# For scripts of this folder: XFS, on a loop device, on nbdfuse, on a served pool. Needs root.
#   source pool-on-loop.sh     makes $work; $forebay is the program
#   serve_on_loop              serves $work/pool.toml, whose export is unix:$work/db.sock; XFS on $loop is mounted at $work/mnt
#   take_down                  ends all of it, for the caller's trap
forebay=$(realpath "${FOREBAY:-target/release/forebay}")
work=$(mktemp -d /var/tmp/forebay-bench.XXXXXX)
loop='' fuse='' server=''
chmod 755 "$work"
mkdir "$work/fuse" "$work/mnt"

take_down() {
    set +e
    # Where it is watched it may be busy for a moment.
    mountpoint -q "$work/mnt" && wait_for umount "$work/mnt"
    [ -z "$loop" ] || losetup -d "$loop"
    [ -z "$fuse" ] || { fusermount3 -u "$work/fuse"; wait "$fuse"; }
    [ -z "$server" ] || { kill "$server"; wait "$server"; }
    rm -rf --one-file-system "$work"
}

wait_for() {
    for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
    echo "timed out: $*" >&2
    return 1
}

serve_on_loop() {
    "$forebay" serve "$work/pool.toml" >"$work/serve.log" 2>&1 &
    server=$!
    wait_for grep -q '^ready' "$work/serve.log"
    nbdfuse "$work/fuse/disk" --unix "$work/db.sock" &
    fuse=$!
    wait_for test -e "$work/fuse/disk"
    loop=$(losetup -f --show --direct-io=on "$work/fuse/disk")
    mkfs.xfs -q "$loop"
    mount "$loop" "$work/mnt"
}
