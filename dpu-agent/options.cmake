dpu_library(dpu_options dpu_options.c)
target_link_libraries(dpu_options PUBLIC agent_options)
