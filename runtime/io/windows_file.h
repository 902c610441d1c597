#pragma once

#ifdef _WIN32

#include <filesystem>

#include <windows.h>

namespace pumice {

// Opens a file with CreateFileW(), for the functions of the C library. With FILE_SHARE_DELETE in `sharing`,
// it can be removed while it is open, unlike one that the C library opened: it is gone once it is closed.
// Returns -1 with the reason in errno if that fails.
int open_windows_file(const std::filesystem::path& path, DWORD access, DWORD sharing, DWORD creation);

} // namespace pumice

#endif
