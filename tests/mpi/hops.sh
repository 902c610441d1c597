#!/bin/bash
# hops.sh MPIEXEC PROGRAM: the two processes of hops.cpp, over shared memory and over TCP.
set -eu
mpiexec=$1 program=$2
if "$mpiexec" --version 2>/dev/null | grep -q "Open MPI\|OpenRTE"; then
  options=(--oversubscribe --quiet)
  [ "$(id -u)" = 0 ] && options+=(--allow-run-as-root)
  timeout 50 "$mpiexec" "${options[@]}" -n 2 "$program"
  timeout 50 "$mpiexec" "${options[@]}" --mca btl tcp,self -n 2 "$program"
else # MPICH, over UCX or libfabric
  timeout 50 "$mpiexec" -n 2 "$program"
  MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self FI_PROVIDER=tcp timeout 50 "$mpiexec" -n 2 "$program"
fi
