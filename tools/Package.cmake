# `cpack` in the build folder makes a Debian package and a tarball, and packages/make.sh those that run on older systems and on
# Windows. One of each, with the libraries, their headers and the command:
# who installs it develops with it, and a program that ships takes libpumice.so.1 along. The parts that distributions separate are
# there all the same: cmake --install build --component runtime, development, tools or mpi.
set(CPACK_GENERATOR DEB TGZ)
# The plug-in for MPI is a Debian package of its own, so that the first one does not bring Open MPI along.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL development runtime tools)
foreach(component DEVELOPMENT RUNTIME TOOLS)
  set(CPACK_COMPONENT_${component}_GROUP main)
endforeach()
set(CPACK_DEBIAN_MAIN_PACKAGE_NAME pumice)
if(TARGET pumice_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME pumice-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "pumice (= ${PROJECT_VERSION})")
endif()
set(CPACK_PACKAGE_NAME pumice)
set(CPACK_PACKAGE_VENDOR "The Pumice authors")
set(CPACK_PACKAGE_CONTACT "The Pumice authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "Language models, encoders, translation, speech and pictures on GPUs of any make through Vulkan,\n\
as a library with a C and a C++ interface and as a command.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES OFF)  # that is up to the build's type

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers | vulkan-icd")
find_program(PUMICE_SHLIBDEPS dpkg-shlibdeps NO_CACHE)
if(PUMICE_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
endif()
include(GNUInstallDirs)
# The texts of the licences of what was linked, where packages/software.py has written them.
install(DIRECTORY "${PROJECT_BINARY_DIR}/licences" DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime OPTIONAL)
include(CPack)

# All that `cmake --install` installs, and no test.
add_custom_target(installable)
foreach(target pumice pumice_pages pumice_shared pumice_static)
  if(TARGET ${target})
    add_dependencies(installable ${target})
  endif()
endforeach()
