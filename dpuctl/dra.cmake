# dra: the kubelet's part, for people without a kubelet.
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)

dpu_core_library(dpuctl_dra_cache dra_cache.c)
target_link_libraries(dpuctl_dra_cache PUBLIC base_core)

dpu_library(dpuctl_dra dra_link.c dra_watch.c grpc_client.c)
target_link_libraries(dpuctl_dra PUBLIC dpuctl_dra_cache dpuctl_look base json grpc_core dra_proto
  PRIVATE PkgConfig::NGHTTP2)

if(BUILD_TESTING)
  dpu_unit_test(dra_cache dpuctl_dra)
  dpu_unit_test(dra_grpc_client dpuctl_dra grpc_conn)
  dpu_fuzz(dra_grpc_client dpuctl_dra)
endif()
