# What compilers and linkers are told. GCC and Clang share their options, Microsoft's compiler has others, and what only some
# linkers know is asked for before it is used.
include(CheckLinkerFlag)

if(PUMICE_FUZZ OR PUMICE_SANITIZE OR PUMICE_THREAD_SANITIZER)
  set(sanitized TRUE)
endif()
if(MSVC)
  if(sanitized)
    message(FATAL_ERROR "PUMICE_FUZZ, PUMICE_SANITIZE and PUMICE_THREAD_SANITIZER need GCC or Clang")
  endif()
  # C++ as the standard has it, sources in UTF-8, objects with many sections.
  add_compile_options(/W4 /permissive- /utf-8 /Zc:preprocessor /bigobj $<$<COMPILE_LANGUAGE:CXX>:/Zc:__cplusplus>)
  add_compile_definitions(_CRT_SECURE_NO_WARNINGS _USE_MATH_DEFINES)
  set(warnings_are_errors /WX)
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  # Vulkan's structures are meant to be started from their first member alone.
  add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers)
  set(warnings_are_errors -Werror)
  set(PUMICE_COMPILE_FAST $<$<CONFIG:Release>:-Og>)  # for code whose speed does not matter: a quarter less to compile than -O1
  # For code that hardly runs. Where tests wait for it, it may be a twelfth larger.
  set(PUMICE_COMPILE_SMALL $<$<CONFIG:Release>:-Os>)
  if(PUMICE_TESTS)
    set(PUMICE_COMPILE_SMALL ${PUMICE_COMPILE_FAST})
  endif()
  set(PUMICE_COMPILE_ONCE $<$<CONFIG:Release>:-O0>)  # for code that runs once, and computes nothing
  # GCC looks for memory to use again whenever it has taken twice what it had: a tenth of its time, where memory is not short.
  cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR memory "${memory} / ${processors}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND memory GREATER 3000)  # MiB for each file that is compiled at a time
    add_compile_options("SHELL:--param ggc-min-heapsize=1048576")
  endif()
  set(PUMICE_BATCH_OPTIONS $<$<BOOL:${PUMICE_UNITY}>:-Wno-shadow>)  # a neighbour's names are not hidden by mistake
endif()
if(WIN32)
  add_compile_definitions(NOMINMAX WIN32_LEAN_AND_MEAN)  # for windows.h
endif()
if(MINGW)
  add_compile_options(-Wa,-mbig-obj)  # objects with more sections than the first format could count
  # GCC remembers which registers an inline function leaves alone, and calls it so. The linker may take another file's copy of it,
  # which was compiled by other rules and uses these registers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-ipa-ra)
  endif()
endif()

# What a program does not use of its libraries is left out, and so are the symbols; the sanitizers' reports need them.
if(NOT (MSVC OR sanitized))
  check_linker_flag(CXX -Wl,--gc-sections PUMICE_LINKER_COLLECTS_SECTIONS)
  if(PUMICE_LINKER_COLLECTS_SECTIONS)
    add_compile_options(-ffunction-sections -fdata-sections)
    add_link_options(-Wl,--gc-sections $<$<CONFIG:Release>:-s>)
  endif()
endif()
if(PUMICE_WERROR)
  add_compile_options(${warnings_are_errors})
endif()
if(PUMICE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(PUMICE_THREAD_SANITIZER)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=thread)
endif()
if(PUMICE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PUMICE_FUZZ needs clang: -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++")
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")  # half the time to compile, and nearly as fast to run
  set(PUMICE_COMPILE_FAST $<$<CONFIG:Release>:-O0>)
  set(PUMICE_COMPILE_SMALL ${PUMICE_COMPILE_FAST})  # hardly runs here, too
  # The whole library is watched, not the fuzz targets alone; undefined behaviour ends a run as a memory error does.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  # The library: the fuzzer looks for inputs that get further in it.
  set(PUMICE_COMPILE_COVERED -fsanitize=fuzzer-no-link
    "-fsanitize-coverage-ignorelist=${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/uncovered.txt")
  add_link_options(-fsanitize=address,undefined)
endif()

# Compiles a target's files in batches, each of one folder's files: a new file changes the batches of its folder alone.
#   pumice_batch_by_folder(TARGET DEPTH MOST FILES...)     DEPTH: how many names of a path, from the project, make a folder
function(pumice_batch_by_folder target depth most)
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
    string(REPLACE "/" ";" names "${path}")
    list(POP_BACK names)
    list(SUBLIST names 0 ${depth} names)
    list(JOIN names "_" folder)
    if(NOT DEFINED count_${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR batch "${count_${folder}} / ${most}")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${folder}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PUMICE_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()
