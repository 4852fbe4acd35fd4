#!/bin/sh
# Runs a script as root on a throw-away machine: this machine's files under an overlay, in new process, network, mount
# and cgroup namespaces, with its own systemd if systemd is installed. What the script installs or changes does not reach
# this machine.
#
# usage: throw-away-machine.sh SCRIPT FILE...      the script gets copies of the files as its arguments
#
# Prints the output of the script and exits with its exit code. Needs root.
set -eu

if [ "${1:-}" != --inside ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    work=$(mktemp -d)
    mkdir "$work/share" "$work/disk"
    cp "$@" "$work/share"
    script=$(basename "$1")
    shift
    for file in "$@"; do basename "$file"; done >"$work/share/arguments"
    echo 1 >"$work/share/code"
    : >"$work/share/log"

    # The machine's cgroups are below this one, so that they can be removed afterwards.
    cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
    group=
    if [ -n "$cgroups" ] && [ -x /lib/systemd/systemd ]; then
        group=$cgroups/throw-away-machine-$$
        mkdir "$group"
    fi
    clean_up() {
        # The last processes may not have ended yet.
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            if [ -z "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; then break; fi
            sleep 0.5
        done
        rm -rf "$work"
    }
    trap clean_up EXIT
    trap 'exit 130' INT TERM

    # The first process joins the group, so that the group becomes the root of the cgroup namespace.
    timeout --kill-after=5 300 sh -c '
        [ -z "$1" ] || echo $$ >"$1/cgroup.procs"
        exec unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
            sh "$2" --inside "$3" "$4" "$1"' \
        sh "$group" "$here/throw-away-machine.sh" "$work" "$script" || true
    cat "$work/share/log"
    exit "$(cat "$work/share/code")"
fi

work=$2
script=$3
group=$4

# The disk: writes go to memory.
mount -t tmpfs disk "$work/disk"
mkdir "$work/disk/upper" "$work/disk/work" "$work/disk/root"
root=$work/disk/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/disk/upper,workdir=$work/disk/work" "$root"
for directory in run tmp; do
    mount -t tmpfs "$directory" "$root/$directory"
done
mkdir "$root/run/share"
mount --bind "$work/share" "$root/run/share"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
if [ -n "$group" ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi

cat >"$root/run/share/start" <<EOF
#!/bin/sh
# Each line of \`arguments\` names a file.
exec >>/run/share/log 2>&1 </dev/null
cd /run/share
set --
while read -r name; do set -- "\$@" "/run/share/\$name"; done <arguments
code=0
sh "/run/share/$script" "\$@" || code=\$?
echo \$code >/run/share/code
EOF

: >"$root/etc/fstab"

# No service of this machine starts there. Some would set the clock or kernel parameters, which the two machines share.
find "$root/etc/systemd" "$root/lib/systemd" "$root/usr/lib/systemd" -name '*.wants' -prune -exec rm -rf {} + 2>/dev/null ||
    true
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/run/systemd/system"
cat >"$root/run/systemd/system/throw-away.target" <<EOF
[Unit]
Requires=throw-away.service
EOF
cat >"$root/run/systemd/system/throw-away.service" <<EOF
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh /run/share/start
ExecStopPost=/bin/systemctl exit --force
EOF

cd "$root"
mkdir -p mnt
pivot_root . mnt
umount -l mnt
cd /
if [ -n "$group" ]; then
    # With this variable systemd does not touch the hardware.
    exec env -i container=throw-away PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=throw-away.target --show-status=no --log-target=null >/dev/null 2>&1 </dev/null
fi
rm -rf /run/systemd
exec sh /run/share/start
