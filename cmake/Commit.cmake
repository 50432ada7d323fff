# cmake -DSOURCE=DIR -DOUT=FILE -P Commit.cmake: a header with the commit of the sources, "+" behind
# it if they were changed since; written anew only if it differs. "" where there is no repository.
cmake_minimum_required(VERSION 3.25)
if(DEFINED ENV{DPU_COMMIT}) # who builds from an archive may say it
  set(commit "$ENV{DPU_COMMIT}")
  file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#define DPU_COMMIT \"@commit@\"\n")
  return()
endif()
set(git git -c safe.directory=${SOURCE} -C ${SOURCE})
execute_process(COMMAND ${git} rev-parse --show-prefix OUTPUT_VARIABLE prefix ERROR_QUIET
  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
set(commit "")
if(status STREQUAL "0" AND prefix STREQUAL "") # ours, not one that the sources merely lie in
  execute_process(COMMAND ${git} describe --always --dirty=+ --exclude=* --abbrev=12
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#define DPU_COMMIT \"@commit@\"\n")
