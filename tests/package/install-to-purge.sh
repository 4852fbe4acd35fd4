#!/bin/sh
# Installs the package, runs nodes, removes and purges the package, and checks that nothing is left. It changes the
# machine: run it in a guest or with throw-away-machine.sh. If systemd runs, it starts the node as a service.
#
# usage: install-to-purge.sh PACKAGE.deb
#
# A guest whose initrd has busybox and little else needs these programs as well: dpkg, dpkg-deb, dpkg-query, dpkg-split,
# ldconfig, ip and GNU tar. Its libraries are files that dpkg knows nothing of, so there dependencies are not checked.
#
# Needs root, dpkg, iproute2 and a kernel with veth. Prints each step. The exit code is 0 if every check passed.
set -eu

package=$1
unit=tiercel@left
log=/run/install-to-purge.log
listing=/run/install-to-purge
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

say() {
    echo "== $*"
}

fail() {
    echo "FAILED: $*"
    if [ -f "$log" ]; then sed 's/^/node: /' "$log"; fi
    if [ -f "$log.peer" ]; then sed 's/^/peer: /' "$log.peer"; fi
    exit 1
}

# Waits until a command succeeds.
wait_for() {
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then fail "in vain: $what"; fi
        sleep 0.1
    done
}

# Prints the path of a program that is not a part of busybox, whose shell would take its own.
real() {
    for path in "/usr/sbin/$1" "/usr/bin/$1" "/sbin/$1" "/bin/$1"; do
        case $(readlink -f "$path") in
            */busybox) ;;
            *) if [ -x "$path" ]; then echo "$path" && return; fi ;;
        esac
    done
    fail "there is no program $1"
}

ip() {
    "$real_ip" "$@"
}

dpkg() {
    # shellcheck disable=SC2086
    "$real_dpkg" $dpkg_options "$@"
}

# Finds the programs, and creates the records of dpkg if there are none.
prepare() {
    real_ip=$(real ip)
    real_dpkg=$(real dpkg)
    dpkg_options=
    if [ ! -e /var/lib/dpkg/status ]; then
        mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
        : >/var/lib/dpkg/status
        dpkg_options=--force-depends
    fi
}

has_systemd() {
    [ -d /run/systemd/system ]
}

# Lists the files in the directories that packages write to, without the records of dpkg and man-db.
list_files() {
    find /etc /usr /opt /srv /var \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print \
        2>/dev/null | sort
}

is_detached() {
    ! ip link show veth-left | grep -q xdp
}

is_down() {
    ! tiercel --node left status && is_detached
}

make_network() {
    say "a network with two ends, one in the namespace \`peer\`"
    ip netns add peer
    ip link add veth-left mtu 3498 type veth peer name veth-right mtu 3498 netns peer
    ip addr add 10.9.0.1/24 dev veth-left
    ip -n peer addr add 10.9.0.2/24 dev veth-right
    ip link set veth-left up
    ip -n peer link set lo up
    ip -n peer link set veth-right up
}

install_package() {
    say "installation"
    list_files >"$listing.before"
    dpkg --install "$package"
    tiercel --version
    dpkg --verify tiercel
    dpkg-query --show --showformat='${Conffiles}' tiercel | grep -q /etc/tiercel/example.toml || fail "no conffile"
    for page in tiercel tiercel-up tiercel-conn-connect; do
        if command -v man >/dev/null; then
            # dpkg may be configured to leave out manual pages (path-exclude).
            file=/usr/share/man/man1/$page.1.gz
            if [ -f "$file" ]; then MANWIDTH=80 man --warnings=w -l "$file" >"$listing.page" 2>&1; fi
            if [ -f "$file" ] && ! grep -q EXAMPLES "$listing.page" && [ "$page" != tiercel ]; then
                fail "$file shows no examples"
            fi
        fi
    done
    if command -v systemd-analyze >/dev/null && has_systemd; then
        said=$(systemd-analyze verify --man=no /usr/lib/systemd/system/tiercel@.service 2>&1) || fail "the unit: $said"
        [ -z "$said" ] || fail "the unit: $said"
    fi
}

write_node_file() {
    sed -e 's/"eth1" /"veth-left" /' -e 's/^address .*/address = "10.9.0.1"/' -e '/^address/a name = "left"' \
        /etc/tiercel/example.toml >/etc/tiercel/left.toml
}

start_node() {
    say "a node of /etc/tiercel/left.toml"
    write_node_file
    if has_systemd; then
        mkdir -p /run/systemd/system/tiercel@.service.d
        printf '[Service]\nStandardError=append:%s\n' "$log" >/run/systemd/system/tiercel@.service.d/log.conf
        systemctl daemon-reload
        systemctl enable --now "$unit" || fail "the unit does not start"
        # systemctl returns when the node has reported that it is ready. From then on it answers.
        tiercel --node left status >/dev/null || fail "the node is ready and does not answer"
        systemctl show --property=StatusText "$unit" | grep -q 'serving veth-left on 10.9.0.1' || fail "no status"
    else
        tiercel up --config /etc/tiercel/left.toml 2>>"$log" &
        wait_for "the node answers" tiercel --node left status
    fi
}

start_peer() {
    say "its peer, started by hand"
    mkdir -p /run/inbox
    ip netns exec peer tiercel up --interface veth-right --address 10.9.0.2 --name right --receive-dir /run/inbox \
        2>"$log.peer" &
    wait_for "the peer answers" tiercel --node right status
}

move_data() {
    say "a file there and back, and a trace"
    connection=$(tiercel --node left conn connect 10.9.0.2 | sed -n 's/^connection \([0-9]*\) .*/\1/p')
    [ -n "$connection" ] || fail "conn connect names no connection"
    head -c 4000000 /dev/urandom >/root/install-to-purge.file
    tiercel --node left cp /root/install-to-purge.file "$connection:"
    tiercel --node left cp "$connection:install-to-purge.file" /root/install-to-purge.back
    cmp /root/install-to-purge.file /root/install-to-purge.back
    tiercel --node left trace --out /root/install-to-purge.trace --duration 100ms
    tiercel --node left stats >/dev/null
    tiercel --node left conn close "$connection"
    rm /root/install-to-purge.*
}

main_pid() {
    systemctl show --property=MainPID --value "$unit"
}

is_new_and_active() {
    systemctl is-active "$unit" && [ "$(main_pid)" != "$1" ] && tiercel --node left status
}

supervise() {
    say "a killed node comes back"
    before=$(main_pid)
    kill -9 "$before"
    wait_for "the node came back" is_new_and_active "$before"
    say "a wrong node file is no reason to try again"
    systemctl stop "$unit"
    wait_for "the node is down" is_down
    echo 'colour = "red"' >>/etc/tiercel/left.toml
    if systemctl start "$unit" 2>/dev/null; then fail "a node comes up with a wrong file"; fi
    systemctl show --property=ExecMainStatus --value "$unit" | grep -qx 2 || fail "exit code 2 is expected"
    [ "$(systemctl is-active "$unit")" = failed ] || fail "it is started again: $(systemctl is-active "$unit")"
    write_node_file
    systemctl start "$unit"
    say "an upgrade restarts the node"
    before=$(main_pid)
    echo '# mine' >>/etc/tiercel/example.toml
    dpkg --install "$package"
    wait_for "the node was restarted" is_new_and_active "$before"
}

remove_package() {
    say "removal"
    if ! has_systemd; then tiercel --node left down; fi
    tiercel --node right down
    dpkg --remove tiercel
    wait_for "nothing is attached" is_detached
    [ ! -e /usr/bin/tiercel ] || fail "the program is still there"
    [ ! -e /run/tiercel ] || fail "/run/tiercel is still there"
    [ -f /etc/tiercel/example.toml ] || fail "the conffile is gone"
    if has_systemd && systemctl is-active --quiet "$unit"; then fail "the unit still runs"; fi
}

purge_package() {
    say "purge"
    dpkg --purge tiercel
    [ -f /etc/tiercel/left.toml ] || fail "a file of the administrator is gone"
    [ ! -e /etc/tiercel/example.toml ] || fail "the conffile is still there"
    rm -r /etc/tiercel
    rm -rf /run/systemd/system/tiercel@.service.d /run/inbox
    list_files >"$listing.after"
    diff "$listing.before" "$listing.after" || fail "these files came or went"
    ip netns del peer
}

prepare
make_network
install_package
start_node
start_peer
move_data
if has_systemd; then supervise; fi
remove_package
purge_package
say "all is well"
