# libpumice for other programs: shared, and static; the targets pumice::shared, pumice::static, and pumice::pumice for the first
# of them, in this build as in an installed package. Neither brings a name other than pumice_* into a program: many programs have
# a fmt, a JSON parser or a PCRE2 of their own, of another version.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CheckCXXSourceCompiles)

function(pumice_public_library target name)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME pumice EXPORT_NAME ${name} LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>" $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(pumice::${name} ALIAS ${target})
endfunction()

add_library(pumice_sentence_piece OBJECT runtime/text/formats/sentence_piece.cpp)
pumice_library_code(pumice_sentence_piece)
# Debian's static libpng and libjpeg-turbo do not fit a shared library: a program that has pixels need not carry others.
if(PUMICE_PICTURE_FILES)
  find_package(PNG REQUIRED)
  find_package(JPEG REQUIRED)
  set(picture_libraries ${PNG_LIBRARIES} ${JPEG_LIBRARIES})
  set(PUMICE_PICTURE_LIBS "-lpng -ljpeg ")
  add_library(pumice_picture_files OBJECT runtime/media/image.cpp runtime/media/png.cpp runtime/media/jpeg.cpp)
  target_include_directories(pumice_picture_files SYSTEM PRIVATE ${PNG_INCLUDE_DIRS} ${JPEG_INCLUDE_DIRS})
else()
  set(picture_libraries)
  add_library(pumice_picture_files OBJECT runtime/media/no_image_files.cpp)
endif()
pumice_library_code(pumice_picture_files)
set(objects ${PUMICE_CORE_OBJECTS} $<TARGET_OBJECTS:pumice_sentence_piece> $<TARGET_OBJECTS:pumice_picture_files>)

add_library(pumice_shared SHARED ${objects})
pumice_public_library(pumice_shared shared)
set_target_properties(pumice_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(pumice_shared PRIVATE pumice_dependencies ${picture_libraries})
set(map "${CMAKE_CURRENT_LIST_DIR}/pumice.map")
if(WIN32)
  file(READ "${map}" names)
  string(REGEX MATCHALL "pumice_[a-z0-9_]+" names "${names}")
  list(JOIN names "\n" names)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/pumice.def" CONTENT "EXPORTS\n@names@\n" @ONLY)
  target_sources(pumice_shared PRIVATE "${PROJECT_BINARY_DIR}/generated/pumice.def")
  set_target_properties(pumice_shared PROPERTIES PREFIX "" PDB_NAME libpumice)  # beside the command's
  # Of which each compiler's own tool makes an import library of its own form.
  install(FILES "${PROJECT_BINARY_DIR}/generated/pumice.def" DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
elseif(APPLE)
  target_link_options(pumice_shared PRIVATE "LINKER:-exported_symbol,_pumice_*")
else()
  target_link_options(pumice_shared PRIVATE "LINKER:--version-script=${map}" LINKER:-z,defs)
  set_property(TARGET pumice_shared APPEND PROPERTY LINK_DEPENDS "${map}")
endif()
pumice_link_for_others(pumice_shared)
add_library(pumice::pumice ALIAS pumice_shared)
set(targets pumice_shared)

# All of it in one object, whose other names are then made local. A linker that drops unused sections still does.
set(seal -r -nostdlib -Wl,--force-group-allocation)
set(CMAKE_REQUIRED_LINK_OPTIONS ${seal})
check_cxx_source_compiles("int pumice_probe() { return 0; }" PUMICE_LINKER_SEALS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(WIN32 OR NOT PUMICE_LINKER_SEALS OR NOT CMAKE_OBJCOPY)
  message(STATUS "leaving out libpumice.a: it takes GNU's ld and objcopy, for ELF")
elseif(NOT "${PCRE2_LIBRARY} ${UTF8PROC_LIBRARY}" MATCHES "\\.a .*\\.a$")
  message(STATUS "leaving out libpumice.a: it takes static libraries of PCRE2 and utf8proc")
else()
  set(object "${PROJECT_BINARY_DIR}/generated/pumice.o")
  set(linked "$<FILTER:${objects},EXCLUDE,[.][gp]ch$>")  # CMake lists a precompiled header among a target's objects
  add_custom_command(OUTPUT "${object}"
    COMMAND "${CMAKE_CXX_COMPILER}" ${seal} -o "${object}" "${linked}" "${PCRE2_LIBRARY}" "${UTF8PROC_LIBRARY}"
    COMMAND "${CMAKE_OBJCOPY}" --wildcard --keep-global-symbol=pumice_* $<$<CONFIG:Release>:--strip-unneeded> "${object}"
    DEPENDS "${linked}"
    COMMENT "Sealing libpumice.a" COMMAND_EXPAND_LISTS VERBATIM)
  add_library(pumice_static STATIC "${object}")
  add_dependencies(pumice_static pumice_core pumice_small pumice_sentence_piece pumice_picture_files)  # makefiles know no other target's objects
  pumice_public_library(pumice_static static)
  target_link_libraries(pumice_static INTERFACE ${picture_libraries} Threads::Threads ${CMAKE_DL_LIBS} stdc++ m)
  list(APPEND targets pumice_static)
endif()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()  # who has this as a folder installs what they ship
endif()
install(TARGETS ${targets} EXPORT pumice-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/pumice.h" "${CMAKE_CURRENT_LIST_DIR}/pumice.hpp" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pumice COMPONENT development)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${CMAKE_CURRENT_LIST_DIR}/THIRD-PARTY-LICENSES"
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/pumice)
install(EXPORT pumice-targets NAMESPACE pumice:: DESTINATION ${folder} COMPONENT development)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/pumice-config.cmake.in" "${PROJECT_BINARY_DIR}/generated/pumice-config.cmake"
  INSTALL_DESTINATION ${folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/pumice-config-version.cmake" COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/pumice-config.cmake" "${PROJECT_BINARY_DIR}/generated/pumice-config-version.cmake"
  DESTINATION ${folder} COMPONENT development)

# pkg-config's file says where things are from where it is itself.
set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PUMICE_PREFIX_FROM_PC "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/pumice.pc.in" "${PROJECT_BINARY_DIR}/generated/pumice.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/pumice.pc" DESTINATION ${folder} COMPONENT development)
