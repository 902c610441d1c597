# Writes the commit that is built into a header, at each build and only where it changed: one file is compiled again for it.
#   cmake -DSOURCE=FOLDER -DHEADER=FILE -P Commit.cmake
set(commit "")
find_program(git git)
if(git)
  # A tarball that was unpacked inside somebody's repository has nothing to do with that one's commits.
  execute_process(COMMAND "${git}" -C "${SOURCE}" rev-parse --show-cdup OUTPUT_VARIABLE up RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND up STREQUAL "")
    execute_process(COMMAND "${git}" -C "${SOURCE}" rev-parse --short=10 HEAD OUTPUT_VARIABLE commit
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND "${git}" -C "${SOURCE}" diff-index --quiet HEAD -- RESULT_VARIABLE changed ERROR_QUIET)
    if(commit AND changed)
      string(APPEND commit " with changes")
    endif()
  endif()
endif()
if(NOT commit)
  file(STRINGS "${SOURCE}/tools/pumice/commit.txt" commit LIMIT_COUNT 1)
  if(commit MATCHES "Format")  # 'git archive' puts the commit in its place
    set(commit "unknown")
  else()
    string(SUBSTRING "${commit}" 0 10 commit)
  endif()
endif()
set(text "#define PUMICE_COMMIT \"${commit}\"\n")
if(EXISTS "${HEADER}")
  file(READ "${HEADER}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${HEADER}" "${text}")
endif()
