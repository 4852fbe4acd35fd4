#!/bin/sh
# Keeps of a run with one flow every loss episode, and of the first 20 ms the first change of the congestion window in
# each 10 us. Reads the rows of new-reno, writes those that are kept.
exec awk -F, '
    $1 == "loss" { print; next }
    $2 < 20000000 { bin = int($2 / 10000); if (bin != last) { print; last = bin } }
'
