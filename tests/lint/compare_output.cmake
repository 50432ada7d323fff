# cmake -DPRINT=PROGRAM -DDOCUMENT=FILE -P: fails unless the program prints the file.
execute_process(COMMAND ${PRINT} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${DOCUMENT} document)
if(NOT printed STREQUAL document)
  message(FATAL_ERROR "${DOCUMENT} is out of date: run ./dev fmt")
endif()
