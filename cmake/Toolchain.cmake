# Language level, warnings, hardening and sanitizers: the same for every target.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # GNU C for the cleanup attribute
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

add_compile_definitions(_GNU_SOURCE DPU_VERSION="${PROJECT_VERSION}")
add_compile_options(
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum -Wvla
  -Wformat=2 -Wpointer-arith -Wundef -fstack-protector-strong
  -Wno-unused-parameter) # a callback takes what its caller has to give
# The same bytes wherever it is built: no path of the sources or of the build gets in.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=.)
add_link_options(-Wl,-z,relro -Wl,-z,now)
# assert() guards against programming errors and stays on in every build type.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_MINSIZEREL "${CMAKE_C_FLAGS_MINSIZEREL}")
if(DPU_WERROR)
  add_compile_options(-Werror)
endif()
if(DPU_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link) # the fuzzer has to see into the libraries
endif()
if(DPU_SANITIZE)
  add_compile_options(-fsanitize=${DPU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DPU_SANITIZE})
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

include(CheckPIESupported)
check_pie_supported()
