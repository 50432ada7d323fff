# The oldest versions that we build with, said before anything is compiled. Of libcurl it is also the
# oldest that we run with: docs/architecture.md says why, tests/curl tests it.
include(CheckSymbolExists)

function(dpu_require what least module)
  pkg_check_modules(found QUIET ${module})
  if(NOT found_FOUND)
    message(FATAL_ERROR "${what} is missing: dpu-heartbeat needs ${least} or newer (pkg-config: ${module})")
  elseif(found_VERSION VERSION_LESS least)
    message(FATAL_ERROR "${what} ${found_VERSION} is too old: dpu-heartbeat needs ${least} or newer")
  endif()
endfunction()

dpu_require(libcurl 7.81.0 libcurl)
dpu_require(jansson 2.13 jansson)

set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
check_symbol_exists(posix_spawn_file_actions_addclosefrom_np spawn.h DPU_HAS_ADDCLOSEFROM)
if(NOT DPU_HAS_ADDCLOSEFROM)
  message(FATAL_ERROR "The C library is too old, or not glibc: dpu-heartbeat needs glibc 2.34 or newer (posix_spawn_file_actions_addclosefrom_np)")
endif()
unset(CMAKE_REQUIRED_DEFINITIONS)
