# The plug-in with which several processes run one model: the command opens it when mpirun has started it. So the command itself
# needs no MPI library.
find_package(MPI COMPONENTS C QUIET)
if(NOT MPI_C_FOUND)
  return()
endif()
add_library(pumice_mpi MODULE tools/mpi/mpi_hop.cpp tools/mpi/mpi_world.cpp)
pumice_library_code(pumice_mpi)
target_link_libraries(pumice_mpi PRIVATE MPI::MPI_C)
target_compile_definitions(pumice_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX PUMICE_MPI_VERSION="${PROJECT_VERSION}")
set_target_properties(pumice_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
add_dependencies(pumice pumice_mpi)  # which finds it beside itself
install(TARGETS pumice_mpi LIBRARY DESTINATION lib/pumice COMPONENT tools)
