#!/bin/sh
# Builds the ns-3 generator in a directory. The headers and libraries of ns-3 must be installed (Debian: libns3-dev).
# Usage: build.sh DIRECTORY
set -eu
directory=${1:?usage: build.sh DIRECTORY}
modules="ns3-core ns3-network ns3-internet ns3-point-to-point ns3-applications ns3-traffic-control"
if ! pkg-config --exists $modules; then
    echo "ns-3 is not installed: run apt-get install libns3-dev pkg-config g++" >&2
    exit 1
fi
# Link only the libraries of ns-3. They find the libraries that they need themselves. The pkg-config files of ns-3 also
# name the development files of those.
libraries=$(pkg-config --libs $modules | tr ' ' '\n' | grep ns3)
mkdir -p "$directory"
c++ -O2 -Wall -Wextra -Wno-unused-parameter -o "$directory/new-reno" "$(dirname "$0")/new-reno.cc" \
    $(pkg-config --cflags $modules) $libraries
