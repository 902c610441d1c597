# What 'pumice --version' says. Only version.cpp is compiled again when the commit changes.
set(left_out)
foreach(tier dot cm cm2)
  if(NOT PUMICE_HAS_${tier})
    list(APPEND left_out "kernels '${tier}' (glslang is too old)")
  endif()
endforeach()
if(NOT SENTENCEPIECE_LIBRARY OR NOT SENTENCEPIECE_HEADERS)
  list(APPEND left_out "the SentencePiece library (its files are read all the same)")
endif()
if(NOT EDIT_LIBRARY OR NOT EDIT_HEADERS)
  list(APPEND left_out "line editing in chats (no libedit)")
endif()
if(NOT BOOST_HEADERS OR WIN32)
  list(APPEND left_out "the server (no Boost)")
endif()
list(JOIN left_out ", " left_out)

set(header "${PROJECT_BINARY_DIR}/generated/command/pumice_commit.h")
add_custom_target(pumice_commit BYPRODUCTS "${header}"
  COMMAND "${CMAKE_COMMAND}" -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${header} -P "${CMAKE_CURRENT_LIST_DIR}/Commit.cmake"
  COMMENT "" VERBATIM)
add_dependencies(pumice_command pumice_commit)
set_source_files_properties(tools/pumice/terminal/version.cpp PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
  INCLUDE_DIRECTORIES "${PROJECT_BINARY_DIR}/generated/command"
  COMPILE_DEFINITIONS "PUMICE_VERSION=\"${PROJECT_VERSION}\";PUMICE_BUILD_TYPE=\"$<CONFIG>\";PUMICE_LEFT_OUT=\"${left_out}\";PUMICE_SYSTEM=\"${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}\"")
