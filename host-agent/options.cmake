dpu_library(cni_options install/cni_options.c)
target_link_libraries(cni_options PUBLIC option)
dpu_library(host_options host_options.c)
target_link_libraries(host_options PUBLIC agent_options cni_options dra_options)
