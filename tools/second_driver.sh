#!/usr/bin/env bash
# Runs the tests that use a device on a second driver: lavapipe of the current Mesa, in a Debian testing root beside the system.
#   tools/second_driver.sh [--root DIR] [--prepare] [CTest options...]
# DIR: where the root is (build/second-driver; 0.8 GB). Remove it to have a newer Mesa. --prepare only makes it.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/.."
. tools/debian_root.sh
name="second driver" dir=build/second-driver arguments=("$@")
if [ "${1:-}" = --root ]; then dir=$2; shift 2; fi
dir=$(realpath -m "$dir")
with_own_mounts "$script" "${arguments[@]}"

make_root forky mesa-vulkan-drivers,libvulkan1,vulkan-validationlayers,cmake
if [ "${1:-}" = --prepare ]; then exit; fi

# 1. What was built here runs there.
./tools/setup.sh --tests
./tools/build.sh build all -DPUMICE_TESTS=ON -DPUMICE_TEST_ALL=ON
mapfile -t programs < <(find build -maxdepth 1 -type f -perm -u+x)
take_libraries "${programs[@]}"

# 2. The checkout and the fixtures are found there under their own paths.
mount_system
mount_read_only "$PWD"
mount --bind "$PWD/build" "$dir$PWD/build"
fixtures=$(realpath -m "${PUMICE_FIXTURES:-../shared/fixtures}")
if [ -d "$fixtures" ]; then
  mount_read_only "$fixtures"
  export PUMICE_FIXTURES=$fixtures
fi

in_root dpkg-query -W -f='second driver: ${Package} ${Version}\n' mesa-vulkan-drivers
in_root "$PWD/build/pumice" devices || fail "no Vulkan device there"
# Once for all drivers is enough of what they have no part in: calls that are made to fail, tests without a device or with devices that
# are only described, subgroups that are made of the device's own, and what commands read, write and refuse (what they compute is the
# other tests' own). How Ctrl-C ends work on the device is tried, but not at every moment.
variables=(PUMICE_TEST_OTHER_TURNS=1)  # what the first driver's turns leave out
anywhere='faults|^(unit|sanitized|docs|graph|mpi|templates|python|csharp|rust)[.]|^gpu[.](devices|known_drivers|limited_vulkan|memory_types|profiles)|^widths[.].*[.]made_'
anywhere+='|^command[.](.*_agreement|aliases|bad_input|caption|chat|classify|convert|embed|generate|help|inspect|interrupt[.]long|json|mistakes'
anywhere+='|bench_statistics|outputs|perplexity|progress|requests|rerank|sampling|streams|template|text_input|tokenize|transcribe|translate)'
if [[ " ${PUMICE_TEST_WITHOUT:-} " == *" long "* ]]; then
  # What is left is what the first driver has not run, of the rest what is not the parts of other tests: matrices, kernels and models.
  variables+=(GALLIVM_PERF=nopt)  # half of the compiler's work; long tests have all of it
  anywhere+='|[.]long$|^widths[.]kernel[.]matrices_(16|64)$|^(command|embed|gpu|npc_demo)[.]'
  anywhere+='|^kernel[.](adapter|attention|cache_.*|chosen_positions|convolution|elementwise|embedding|frames|image|norm|pictures|pooling|position.*|registers|sampling|scoring|search|sinusoid|variant_order)$'
  anywhere+='|^model[.](adapters|audio_features|audio_language|awkward_sizes|batch|batch[.]rest|check_model|chosen_positions|codec|continuation_scores|crashing_question|ctranslate2|division|ggml_whisper|input_sums'
  anywhere+='|live_transcription|load|masked|memory.*|merged_experts|microscaled|mmproj|prediction|quantised_folder|renamed_models|session|short_check|snapshot|stages.*'
  anywhere+='|text_models|towers|tuning|vision_language_patches)$'
fi
in_root env "${variables[@]}" ctest --test-dir "$PWD/build" -j2 -LE '^(watched|built)$' -E "$anywhere" --output-on-failure --no-label-summary --no-tests=error "$@"
