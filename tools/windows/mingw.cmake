# A toolchain file: Debian's mingw-w64, libraries that tools/windows.sh has made, and wine for programs that a build itself runs.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)  # a program needs no DLL but those of Windows
set(CMAKE_SHARED_LINKER_FLAGS_INIT -static)
get_filename_component(libraries "${CMAKE_CURRENT_LIST_DIR}/../../build/windows/libraries" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${libraries}" /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# In a folder of its own, without .NET, a browser, and their questions.
set(CMAKE_CROSSCOMPILING_EMULATOR env "WINEPREFIX=${libraries}/../wine" WINEDEBUG=-all "WINEDLLOVERRIDES=mscoree,mshtml=" wine)
