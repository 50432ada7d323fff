# dra: the kubelet's part, for people without a kubelet.
dpu_core_library(dpuctl_dra_cache dra_cache.c)
target_link_libraries(dpuctl_dra_cache PUBLIC base_core)

dpu_library(dpuctl_dra dra_link.c dra_watch.c)
target_link_libraries(dpuctl_dra PUBLIC dpuctl_dra_cache dpuctl_look base grpc_client dra_proto)

if(BUILD_TESTING)
  dpu_unit_test(dra_cache dpuctl_dra)
endif()
