# Turns every shaders/FAMILY/KERNEL[.TIER].comp into SPIR-V and one table of kernels that C++ looks up by name, in which
# tools/embed_kernels.cpp packs them.
#
# A shader lists its variants, one line each ('-' for a variant without a name of its own):
#   // variant: NAME [needs=TIER] DEFINE=VALUE DEFINE2 ...
# A name with {weight_type} stands for a variant of each type of weights in common/weight_types.def, with what
# common/weight.glsl wants to know of it; {linear_weight_type} for those whose numbers four codes become bytes at once.
# Kernel name: the file's stem, then the variant's name, so that matmul.cpu8.comp with 'q8_0' is "matmul.cpu8.q8_0".
# Tier: needs=, or else the last part of the stem (matmul.cm.comp), or none. Tiers the compiler is too old for are left out.
# PUMICE_SHADERS_FROM names a build folder whose tables of kernels are taken as they are; a second build saves the time.
# tools/compile_shaders.cpp compiles a shader's variants in one process, where glslang's library is there: else each is one of its
# own, which takes three times as long.

if(CMAKE_SCRIPT_MODE_FILE)
  # Build time: compile one variant, without the library. glslang has no option that makes its warnings errors, so its output is read here.
  get_filename_component(folder "${OUTPUT}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  list(TRANSFORM DEFINES PREPEND -D)
  list(TRANSFORM INCLUDE PREPEND -I)
  string(REPLACE "spv" ";--target-env;spirv" environment "${TARGET}")  # the validator has one name for both
  execute_process(
    COMMAND "${COMPILER}" --quiet -g0 -S comp --target-env ${environment} ${INCLUDE} ${DEFINES} --depfile "${OUTPUT}.d" -o "${OUTPUT}" "${SOURCE}"
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(status EQUAL 0 AND NOT text MATCHES "WARNING|ERROR" AND VALIDATOR)
    execute_process(COMMAND "${VALIDATOR}" --target-env ${TARGET} "${OUTPUT}" RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  endif()
  if(NOT status EQUAL 0 OR text MATCHES "WARNING|ERROR")
    file(REMOVE "${OUTPUT}")
    string(REPLACE "\n" "\n  " text "${text}")  # indented, message() does not wrap the lines
    message(FATAL_ERROR "\n  ${SOURCE} ${DEFINES}\n  ${text}")
  endif()
  return()
endif()

set(PUMICE_TIERS cpu8 half8 dot cm cm2)
set(PUMICE_SHADER_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
set(PUMICE_SHADERS_FROM "" CACHE PATH "A build folder whose compiled shaders are used instead of compiling them again")

# tools/setup.sh leaves a newer compiler in .deps/ where the distribution's is too old.
set(hints "${PROJECT_SOURCE_DIR}/.deps/bin")
if(DEFINED ENV{VULKAN_SDK})
  list(APPEND hints "$ENV{VULKAN_SDK}/bin")
endif()
find_program(PUMICE_GLSLANG NAMES glslangValidator glslang HINTS ${hints} REQUIRED NO_CACHE)
find_program(PUMICE_SPIRV_VAL NAMES spirv-val HINTS ${hints} NO_CACHE)
find_program(PUMICE_SPIRV_OPT NAMES spirv-opt HINTS ${hints} NO_CACHE) # for a test
if(NOT PUMICE_SPIRV_VAL)
  set(PUMICE_SPIRV_VAL "")
endif()

# The libraries of tools/compile_shaders.cpp, from where the compiler is: nothing where one is missing, or where programs that are
# built do not run.
function(pumice_find_glslang_libraries result)
  set(${result} "" PARENT_SCOPE)
  if(CMAKE_CROSSCOMPILING OR sanitized)
    return()
  endif()
  set(places HINTS "$ENV{VULKAN_SDK}")
  if(PUMICE_GLSLANG MATCHES "^${PROJECT_SOURCE_DIR}/[.]deps/")
    set(places PATHS "${PROJECT_SOURCE_DIR}/.deps/root/usr" NO_DEFAULT_PATH)
  endif()
  find_path(GLSLANG_HEADERS glslang/Include/glslang_c_interface.h ${places} PATH_SUFFIXES include NO_CACHE)
  find_path(SPIRV_TOOLS_HEADERS spirv-tools/libspirv.h ${places} PATH_SUFFIXES include NO_CACHE)
  set(libraries "${GLSLANG_HEADERS}" "${SPIRV_TOOLS_HEADERS}")
  foreach(name glslang-default-resource-limits SPIRV glslang MachineIndependent GenericCodeGen OSDependent SPIRV-Tools-opt SPIRV-Tools)
    unset(found)
    find_library(found ${name} ${places} PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_CACHE)
    if(found)
      list(APPEND libraries "${found}")
    elseif(NOT name MATCHES "^(SPIRV|MachineIndependent|GenericCodeGen|OSDependent)$")  # which newer releases have within glslang
      set(libraries NOTFOUND)
    endif()
  endforeach()
  if(NOT libraries MATCHES "NOTFOUND")
    set(${result} ${libraries} PARENT_SCOPE)
  endif()
endfunction()

# The target compile_shaders. What it is linked with in .deps/ is made for a newer C library than the machine's, which lies beside it.
function(pumice_add_shader_compiler headers tools_headers)
  add_executable(compile_shaders "${PROJECT_SOURCE_DIR}/tools/compile_shaders.cpp")
  target_include_directories(compile_shaders SYSTEM PRIVATE "${headers}" "${tools_headers}")
  target_link_libraries(compile_shaders PRIVATE ${ARGN})
  if(headers MATCHES "^${PROJECT_SOURCE_DIR}/[.]deps/")
    list(GET ARGN 0 library)
    get_filename_component(root "${library}" DIRECTORY)
    file(GLOB loader "${root}/ld-linux-*.so.*")
    target_link_options(compile_shaders PRIVATE -nodefaultlibs "-Wl,--dynamic-linker=${loader}" "-Wl,-rpath=${root}")
    target_link_libraries(compile_shaders PRIVATE "${root}/libstdc++.so.6" "${root}/libm.so.6" "${root}/libgcc_s.so.1"
      "${root}/libc.so.6" "${loader}")
  endif()
endfunction()

# GL_NV_cooperative_matrix2 exists in SPIR-V 1.6 only, and kernels for CPUs broadcast from any lane (1.5). The others keep to what a
# program may use whose instance is of Vulkan 1.1 (VK_KHR_spirv_1_4).
function(pumice_tier_target tier result)
  if(tier STREQUAL "cm2")
    set(${result} vulkan1.3 PARENT_SCOPE)
  elseif(tier MATCHES "8$")
    set(${result} vulkan1.2 PARENT_SCOPE)
  else()
    set(${result} vulkan1.1spv1.4 PARENT_SCOPE)
  endif()
endfunction()

# Asks the compiler for each tier's extension: version numbers differ between glslang's releases and the distributions'.
function(pumice_missing_tiers result)
  set(extension_dot GL_EXT_integer_dot_product)
  set(extension_cm GL_KHR_cooperative_matrix)
  set(extension_cm2 GL_NV_cooperative_matrix2)
  execute_process(COMMAND "${PUMICE_GLSLANG}" --version OUTPUT_VARIABLE version RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${PUMICE_GLSLANG} does not run: ${status}")
  endif()
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${version}")
  message(STATUS "Shader compiler: ${PUMICE_GLSLANG} (glslang ${version})")
  set(probe "${PROJECT_BINARY_DIR}/CMakeFiles/tier.comp")
  set(missing)
  foreach(tier dot cm cm2)
    pumice_tier_target(${tier} target)
    string(REPLACE "spv" ";--target-env;spirv" target "${target}")
    file(WRITE "${probe}" "#version 460\n#extension ${extension_${tier}} : require\nvoid main() {}\n")
    execute_process(COMMAND "${PUMICE_GLSLANG}" --quiet --target-env ${target} -o "${probe}.spv" "${probe}"
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(NOT status EQUAL 0)
      list(APPEND missing ${tier})
      message(STATUS "leaving out tier ${tier}: glslang ${version} is too old")
    endif()
  endforeach()
  set(${result} "${missing}" PARENT_SCOPE)
endfunction()

# What of the table each kind of type of weights is called in a variant's name, and the definitions for common/weight.glsl:
# the lists pumice_weight_type, pumice_linear_weight_type and pumice_weight_defines_NAME.
function(pumice_read_weight_types)
  set(table "${PROJECT_SOURCE_DIR}/shaders/common/weight_types.def")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
  file(STRINGS "${table}" lines REGEX "^(PLAIN|QUANTIZED)\\(")
  set(all)
  set(linear)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^(PLAIN|QUANTIZED)\\((.*)\\)$" "\\1,\\2" fields "${line}")
    string(REPLACE " " "" fields "${fields}")
    string(REPLACE "," ";" fields "${fields}")
    list(GET fields 0 kind)
    list(GET fields 1 name)
    list(APPEND all "${name}")
    string(TOUPPER "WEIGHT_TYPE;WEIGHT_TYPE_${name}" defines)
    if(kind STREQUAL "QUANTIZED")
      list(GET fields 6 bits)
      list(GET fields 7 numbers)
      list(GET fields 8 scales)
      list(GET fields 10 parts)
      string(TOUPPER "SCALES_${scales}" scales)
      list(APPEND defines BITS=${bits} SCALE_COUNT=${parts} ${scales})
      if(numbers STREQUAL "signed")
        list(APPEND defines SIGNED=1)
      elseif(numbers MATCHES "^bytes_")
        list(APPEND defines NUMBERS=${numbers}_numbers)
      elseif(NOT numbers STREQUAL "unsigned")
        list(APPEND defines NUMBER=${numbers}_number)
      endif()
      if(numbers MATCHES "^(un)?signed$|^bytes_")
        list(APPEND linear "${name}")
      endif()
    endif()
    set(pumice_weight_defines_${name} "${defines}" PARENT_SCOPE)
  endforeach()
  set(pumice_weight_type "${all}" PARENT_SCOPE)
  set(pumice_linear_weight_type "${linear}" PARENT_SCOPE)
endfunction()

# One line for each type of weights in place of a variant line that names them.
function(pumice_expand_weight_types result)
  set(expanded)
  foreach(variant IN LISTS ARGN)
    if(NOT variant MATCHES "{((linear_)?weight_type)}")
      list(APPEND expanded "${variant}")
      continue()
    endif()
    set(placeholder "${CMAKE_MATCH_1}")
    foreach(type IN LISTS pumice_${placeholder})
      string(REPLACE "{${placeholder}}" "${type}" line "${variant}")
      string(REPLACE ";" " " defines "${pumice_weight_defines_${type}}")
      list(APPEND expanded "${line} ${defines}")
    endforeach()
  endforeach()
  set(${result} "${expanded}" PARENT_SCOPE)
endfunction()

# The table of all kernels, as a part of the target.
function(pumice_compile_shaders target)
  pumice_missing_tiers(missing)
  foreach(tier IN LISTS PUMICE_TIERS)
    if(NOT tier IN_LIST missing)
      set(PUMICE_HAS_${tier} TRUE)
      set(PUMICE_HAS_${tier} TRUE PARENT_SCOPE)
    endif()
  endforeach()
  file(GLOB shaders CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/shaders/*/*.comp")
  pumice_compile_table(${target} kernel_binaries shaders "${PROJECT_SOURCE_DIR}/shaders" ${shaders})
endfunction()

# Compiles shaders into a folder of the build, and adds to the target a table of them, which pumice::FUNCTION() returns. What they
# include is looked for in each of the folders `include`, in this order.
function(pumice_compile_table target function folder include)
  if(PUMICE_SHADERS_FROM)
    pumice_add_table(${target} "${PUMICE_SHADERS_FROM}/generated/${function}.cpp")
    return()
  endif()
  pumice_read_weight_types()
  set(folder "${PROJECT_BINARY_DIR}/${folder}")
  if(NOT TARGET compile_shaders)
    pumice_find_glslang_libraries(libraries)
    if(libraries)
      pumice_add_shader_compiler(${libraries})
    endif()
  endif()

  set(names)
  set(modules)
  foreach(shader IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${shader}")  # its variant lines are read here
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}/shaders" "${shader}")
    get_filename_component(family "${path}" DIRECTORY)
    get_filename_component(stem "${path}" NAME)
    string(REGEX REPLACE "\\.comp$" "" stem "${stem}")
    string(REGEX MATCH "[^.]*$" file_tier "${stem}")
    if(NOT file_tier IN_LIST PUMICE_TIERS)
      set(file_tier "")
    endif()

    file(STRINGS "${shader}" variants REGEX "^// variant:")
    if(NOT variants)
      message(FATAL_ERROR "shaders/${path} has no line '// variant: NAME [needs=TIER] DEFINE=VALUE ...'")
    endif()
    pumice_expand_weight_types(variants ${variants})
    set(outputs)
    set(lines "")
    foreach(variant IN LISTS variants)
      string(REGEX REPLACE "^// variant:" "" variant "${variant}")
      separate_arguments(defines UNIX_COMMAND "${variant}")
      if(NOT defines)
        message(FATAL_ERROR "shaders/${path}: a variant line without a name; '-' stands for none")
      endif()
      list(POP_FRONT defines name)
      string(REGEX REPLACE "\\.-$" "" name "${stem}.${name}")
      set(tier "${file_tier}")
      set(needs "${defines}")
      list(FILTER needs INCLUDE REGEX "^needs=")
      list(FILTER defines EXCLUDE REGEX "^needs=")
      if(needs)
        string(REGEX REPLACE "^needs=" "" tier "${needs}")
        if(NOT tier IN_LIST PUMICE_TIERS)
          message(FATAL_ERROR "shaders/${path}: '${needs}' names no tier (${PUMICE_TIERS})")
        endif()
      endif()
      if(tier AND NOT PUMICE_HAS_${tier})
        continue()
      endif()
      if(name IN_LIST names)
        message(FATAL_ERROR "shaders/${path}: a second kernel named ${name}")
      endif()

      set(output "${folder}/${family}/${name}.spv")
      list(APPEND names "${name}")
      list(APPEND modules "${output}")
      set(tier_of_${name} "${tier}")
      set(output_of_${name} "${output}")
      pumice_tier_target("${tier}" environment)
      if(TARGET compile_shaders)
        list(APPEND outputs "${output}")
        list(JOIN defines " " defines)
        string(APPEND lines "${output} ${environment} ${defines}\n")
        continue()
      endif()
      add_custom_command(OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" "-DCOMPILER=${PUMICE_GLSLANG}" "-DVALIDATOR=${PUMICE_SPIRV_VAL}" -DTARGET=${environment}
          "-DINCLUDE=${include}" "-DDEFINES=${defines}" "-DSOURCE=${shader}" "-DOUTPUT=${output}" -P "${PUMICE_SHADER_SCRIPT}"
        DEPENDS "${shader}" "${PUMICE_GLSLANG}" "${PUMICE_SHADER_SCRIPT}"
        DEPFILE "${output}.d"
        COMMENT "Shader ${name}" VERBATIM)
    endforeach()
    if(outputs)
      set(list "${folder}/${family}/${stem}.txt")
      file(CONFIGURE OUTPUT "${list}" CONTENT "${lines}" @ONLY)
      add_custom_command(OUTPUT ${outputs}
        COMMAND compile_shaders "${shader}" "${list}" "${folder}/${family}/${stem}.d" ${include}
        DEPENDS "${shader}" "${list}" compile_shaders
        DEPFILE "${folder}/${family}/${stem}.d"
        COMMENT "Shader ${stem}" VERBATIM)
    endif()
  endforeach()

  # One file for all: the names sorted, so that a lookup can be a binary search.
  list(SORT names)
  list(LENGTH names count)
  set(lines "")
  foreach(name IN LISTS names)
    set(tier "${tier_of_${name}}")
    if(NOT tier)
      set(tier -)
    endif()
    string(APPEND lines "${name} ${tier} ${output_of_${name}}\n")
  endforeach()
  set(list "${PROJECT_BINARY_DIR}/generated/${function}.txt")
  file(CONFIGURE OUTPUT "${list}" CONTENT "${lines}" @ONLY)  # written only when it differs
  pumice_embed_kernels_tool(tool)
  set(table "${PROJECT_BINARY_DIR}/generated/${function}.cpp")
  add_custom_command(OUTPUT "${table}"
    COMMAND ${tool} "${list}" "${table}" ${function}
    DEPENDS ${tool} "${list}" ${modules}
    COMMENT "Kernels: ${function}" VERBATIM)
  pumice_add_table(${target} "${table}")
  message(STATUS "Kernels: ${count} (${function})")
endfunction()

function(pumice_add_table target table)
  set_source_files_properties("${table}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE "${table}")
endfunction()

# The tool that makes the tables, which runs while building: where programs for the target do not run here, one for this machine.
function(pumice_embed_kernels_tool result)
  set(sources "${PROJECT_SOURCE_DIR}/tools/embed_kernels.cpp" "${PROJECT_SOURCE_DIR}/runtime/gpu/packed_code.cpp")
  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    if(NOT TARGET embed_kernels)
      add_executable(embed_kernels ${sources})
      target_include_directories(embed_kernels PRIVATE "${PROJECT_SOURCE_DIR}/runtime")
    endif()
    set(${result} embed_kernels PARENT_SCOPE)
    return()
  endif()
  set(tool "${CMAKE_BINARY_DIR}/embed_kernels")
  if(NOT TARGET embed_kernels_here)
    find_program(PUMICE_HOST_CXX NAMES c++ g++ clang++ REQUIRED DOC "A C++ compiler for this machine, for a tool of the build")
    add_custom_command(OUTPUT "${tool}"
      COMMAND "${PUMICE_HOST_CXX}" -std=c++20 -O1 -I "${PROJECT_SOURCE_DIR}/runtime" -o "${tool}" ${sources}
      DEPENDS ${sources} VERBATIM)
    add_custom_target(embed_kernels_here DEPENDS "${tool}")
  endif()
  set(${result} "${tool}" PARENT_SCOPE)
endfunction()
