#!/bin/bash
# hops.sh MPIEXEC PROGRAM: the two processes of hops.cpp, over shared memory and over TCP.
set -eu
mpiexec=$1 program=$2
options=(--oversubscribe --quiet)
[ "$(id -u)" = 0 ] && options+=(--allow-run-as-root)
"$mpiexec" --version 2>/dev/null | grep -q "Open MPI\|OpenRTE" || options=() # the options are Open MPI's
timeout 50 "$mpiexec" "${options[@]}" -n 2 "$program"
[ ${#options[@]} = 0 ] || timeout 50 "$mpiexec" "${options[@]}" --mca btl tcp,self -n 2 "$program"
