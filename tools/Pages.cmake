# The manual pages and the shells' completion, as the command itself prints them.
include(GNUInstallDirs)
if(WIN32)
  return()  # where no program reads them
endif()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "leaving out manual pages and completion: the command cannot run here")
  return()
endif()
set(pages "${PROJECT_BINARY_DIR}/generated/share")
add_custom_command(OUTPUT "${pages}/man/man1/pumice.1"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${pages}"
  COMMAND pumice help --write-pages "${pages}"
  DEPENDS pumice COMMENT "Writing manual pages and completion" VERBATIM)
add_custom_target(pumice_pages ALL DEPENDS "${pages}/man/man1/pumice.1")
install(DIRECTORY "${pages}/man/" DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
foreach(folder bash-completion zsh fish)
  install(DIRECTORY "${pages}/${folder}" DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT tools)
endforeach()
