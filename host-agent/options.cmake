dpu_library(host_options host_options.c)
target_link_libraries(host_options PUBLIC agent_options)
