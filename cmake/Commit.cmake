# cmake -DSOURCE=DIR -DOUT=FILE -P Commit.cmake: a header with VERSION_TEXT, what --version says beside a
# program's name: "0.1.0 (commit 0123456789ab)", "+" behind it if the sources were changed since, or
# "0.1.0" where there is no repository. Written anew only if it differs.
cmake_minimum_required(VERSION 3.22)
set(git git -c safe.directory=${SOURCE} -C ${SOURCE})
execute_process(COMMAND ${git} rev-parse --show-prefix OUTPUT_VARIABLE prefix ERROR_QUIET
  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
set(commit "")
if(status STREQUAL "0" AND prefix STREQUAL "") # ours, not one that the sources merely lie in
  execute_process(COMMAND ${git} describe --always --dirty=+ --exclude=* --abbrev=12
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(DEFINED ENV{DPU_COMMIT}) # who builds from an archive may say it
  set(commit "$ENV{DPU_COMMIT}")
endif()
if(NOT commit STREQUAL "")
  set(commit " (commit ${commit})")
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#define VERSION_TEXT DPU_VERSION \"@commit@\"\n")
