#!/usr/bin/env bash
# tools/build.sh shows how far it is: a line that is written over at a terminal, else a line now and then.
#   build_progress_test.sh CHECKOUT
# A stand-in for cmake prints what a build prints.
set -euo pipefail
root=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

mkdir "$folder/bin" "$folder/tools"
cp "$root/tools/build.sh" "$folder/tools"
cat >"$folder/bin/cmake" <<'END'
#!/usr/bin/env bash
[ "$1" = --build ] || { echo "-- configured"; touch build/CMakeCache.txt; exit 0; }
for step in 1 2 3; do echo "[$step/3] Building object $step"; sleep "${STEP_SECONDS:-0}"; done
[ -z "${FAIL:-}" ] || { echo "object 3: error"; exit 1; }
END
chmod +x "$folder/bin/cmake"
export PATH=$folder/bin:$PATH
cd "$folder"

# Nobody watches: nothing where it is quick, and a line now and then where it is not.
quick=$(tools/build.sh build pumice 2>&1)
[[ $quick == "build: configuring build"* && $quick != *" of 3"* ]] || fail "a quick build prints: $quick"
slow=$(STEP_SECONDS=1 PUMICE_BUILD_LINE_SECONDS=1 tools/build.sh build pumice 2>&1)
[[ $slow == *"build: pumice: 2 of 3, 0:0"* ]] || fail "a slow build prints: $slow"
[[ $slow != *configuring* ]] || fail "it says that it configures what is configured: $slow"

# At a terminal.
shown=$(script -qec "tools/build.sh build pumice" /dev/null)
[[ $shown == *$'\r\033[Kbuild: pumice: 3 of 3, 0:0'[0-9]' minutes: Building object 3'* ]] || fail "at a terminal: $shown"

# A build that fails shows its log.
if failed=$(FAIL=1 tools/build.sh build pumice 2>&1); then fail "it succeeds"; fi
[[ $failed == *"object 3: error"*"build: pumice failed; all of it is in build/build.log"* ]] || fail "prints: $failed"
[ $failures = 0 ]
