# Puts utf8.manifest into a program. Microsoft's linker takes it as it is; mingw-w64's takes an object that windres makes.
function(pumice_add_manifest target)
  set(manifest "${PROJECT_SOURCE_DIR}/tools/windows/utf8.manifest")
  if(MSVC)
    target_sources(${target} PRIVATE "${manifest}")
    return()
  endif()
  set(object "${PROJECT_BINARY_DIR}/generated/${target}_manifest.o")
  file(WRITE "${PROJECT_BINARY_DIR}/generated/manifest.rc" "1 24 \"${manifest}\"\n")  # 1: of a program; 24: a manifest
  add_custom_command(OUTPUT "${object}"
    COMMAND "${CMAKE_RC_COMPILER}" "${PROJECT_BINARY_DIR}/generated/manifest.rc" -O coff -o "${object}"
    DEPENDS "${manifest}" COMMENT "Manifest" VERBATIM)
  target_sources(${target} PRIVATE "${object}")
endfunction()
