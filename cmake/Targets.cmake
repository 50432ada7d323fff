# The three kinds of library of this project, and its unit tests.
#
#   dpu_library(NAME SRC... )        shell code: may do I/O
#   dpu_core_library(NAME SRC...)    pure code: no I/O, clock, allocator, log or global. After the
#                                    build its undefined symbols must be in core-symbols.allow.
#   dpu_unit_test(NAME LIB...)       tests/unit/test_NAME.c, linked with cmocka and LIB...

# For what is compiled often and runs for a moment: the tests themselves.
set(DPU_QUICK_COMPILE -O0 -U_FORTIFY_SOURCE)

find_package(PkgConfig REQUIRED)

function(dpu_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/common)
endfunction()

function(dpu_core_library name)
  dpu_library(${name} ${ARGN})
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE sources)
  set_property(GLOBAL APPEND PROPERTY DPU_CORE_SOURCES ${sources})
  # Sanitizers and coverage add symbols of their own; the plain builds prove purity.
  if(DPU_COVERAGE)
    target_compile_options(${name} PRIVATE --coverage)
    target_link_options(${name} INTERFACE --coverage)
  endif()
  if(NOT DPU_SANITIZE AND NOT DPU_FUZZ AND NOT DPU_COVERAGE)
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/core-symbols.sh ${CMAKE_NM} $<TARGET_FILE:${name}>
      VERBATIM)
  endif()
endfunction()

if(BUILD_TESTING)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  add_library(test_case STATIC ${PROJECT_SOURCE_DIR}/tests/support/case.c
    ${PROJECT_SOURCE_DIR}/tests/support/scratch.c)
  target_link_libraries(test_case PUBLIC PkgConfig::CMOCKA)
  target_include_directories(test_case PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/common)
endif()

function(dpu_unit_test name)
  add_executable(test_${name} ${PROJECT_SOURCE_DIR}/tests/unit/test_${name}.c)
  target_link_libraries(test_${name} PRIVATE ${ARGN} test_case)
  target_compile_options(test_${name} PRIVATE ${DPU_QUICK_COMPILE})
  add_test(NAME unit.${name} COMMAND test_${name})
  set_tests_properties(unit.${name} PROPERTIES TIMEOUT 60 LABELS unit)
endfunction()

# dpu_fuzz(NAME LIB...): tests/fuzz/fuzz_NAME.c with the corpus tests/fuzz/corpus/NAME/.
# With DPU_FUZZ (clang) a libFuzzer binary; otherwise a binary that replays the corpus, so that
# every build checks the inputs that once mattered.
function(dpu_fuzz name)
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  add_executable(fuzz_${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/common)
  if(DPU_FUZZ)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} -seed=1 -max_total_time=${DPU_FUZZ_SECONDS} -timeout=5
      -artifact_prefix=${CMAKE_BINARY_DIR}/ ${CMAKE_BINARY_DIR}/corpus/${name} ${corpus})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${name})
  else()
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${corpus})
  endif()
  math(EXPR timeout_s "${DPU_FUZZ_SECONDS} + 110")
  set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT ${timeout_s} LABELS fuzz)
endfunction()
