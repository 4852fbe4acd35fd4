#!/bin/sh
# Thins the rows of new-reno for a run with one flow. Keeps every loss episode. In the first 20 ms, also keeps the first
# change of the congestion window in each 10 us.
exec awk -F, '
    $1 == "loss" { print; next }
    $2 < 20000000 { bin = int($2 / 10000); if (bin != last) { print; last = bin } }
'
