# The plug-in with which several processes run one model: the command opens it when mpirun has started it. So the command itself
# needs no MPI library.
set(PUMICE_MPI AUTO CACHE STRING "Make the plug-in for several processes (tools/STAGES.md): ON, OFF, or AUTO where MPI is found")
if(NOT PUMICE_MPI)
  return()
endif()
find_package(MPI COMPONENTS C QUIET)
if(NOT MPI_C_FOUND)
  if(NOT PUMICE_MPI STREQUAL AUTO)
    message(FATAL_ERROR "PUMICE_MPI is ${PUMICE_MPI}, and no MPI library for C was found: 'tools/setup.sh --mpi' installs one")
  endif()
  return()
endif()
add_library(pumice_mpi_hops OBJECT tools/mpi/mpi_hop.cpp tools/mpi/mpi_world.cpp)
pumice_library_code(pumice_mpi_hops)
target_link_libraries(pumice_mpi_hops PUBLIC MPI::MPI_C)
target_compile_definitions(pumice_mpi_hops PRIVATE PUMICE_MPI_VERSION="${PROJECT_VERSION}"
  PUBLIC OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
add_library(pumice_mpi MODULE runtime/base/guarded.cpp $<TARGET_OBJECTS:pumice_mpi_hops>)
pumice_library_code(pumice_mpi)
target_link_libraries(pumice_mpi PRIVATE MPI::MPI_C)
set_target_properties(pumice_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
add_dependencies(pumice pumice_mpi)  # which finds it beside itself
install(TARGETS pumice_mpi LIBRARY DESTINATION lib/pumice COMPONENT tools)
