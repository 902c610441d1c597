#ifdef _WIN32

#include "io/windows_file.h"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <fcntl.h>
#include <io.h>
#include <windows.h>

namespace pumice {

int open_windows_file(const std::filesystem::path& path, DWORD access, DWORD sharing, DWORD creation) {
  const HANDLE handle =
      CreateFileW(path.c_str(), access, sharing, nullptr, creation, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) {
    errno = std::system_category().default_error_condition(static_cast<int>(GetLastError())).value();
    return -1;
  }
  const int file = _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_BINARY | _O_NOINHERIT);
  if (file < 0) CloseHandle(handle);
  return file;
}

} // namespace pumice

#endif
