# Debian packages by CPack: dpu-heartbeat-dpu for the DPU, dpu-heartbeat-host for the host.
# dpu-dra-driver is in the host's package, disabled until it is enabled: it needs that node's record, and the image
# is one for both. deploy/package.sh makes them; the agents' man pages come from their own --help (help2man).

set(unit_dir lib/systemd/system)
install(FILES deploy/systemd/dpu-agent.service DESTINATION ${unit_dir} COMPONENT dpu)
install(FILES deploy/sysusers.d/dpu-heartbeat.conf DESTINATION lib/sysusers.d COMPONENT dpu)
install(FILES deploy/systemd/dpu-host-agent.service deploy/systemd/dpu-dra-driver.service DESTINATION ${unit_dir} COMPONENT host)
# The same for each further DPU of the host, with what has to be its own.
set(own_dpu-host-agent "--cni-sync=false --on-lost-network=report")
set(own_dpu-dra-driver "--dra-driver-name=%i.dpu.k8s.ovn.org")
foreach(program dpu-host-agent dpu-dra-driver)
  file(READ deploy/systemd/${program}.service unit)
  string(REGEX REPLACE "[tT]he DPU behind" "DPU %i behind" unit "${unit}")
  string(REPLACE "${program}.yaml" "${program}-%i.yaml --readiness-file=/run/dpu-heartbeat/%i.json ${own_${program}}" unit "${unit}")
  file(CONFIGURE OUTPUT ${program}@.service CONTENT "${unit}" @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${program}@.service DESTINATION ${unit_dir} COMPONENT host)
endforeach()
install(FILES deploy/tmpfiles.d/dpu-heartbeat.conf DESTINATION lib/tmpfiles.d COMPONENT host)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(config_dir /etc/dpu-heartbeat)
else()
  set(config_dir ${CMAKE_INSTALL_SYSCONFDIR}/dpu-heartbeat)
endif()
install(FILES deploy/config/dpu-agent.yaml DESTINATION ${config_dir} COMPONENT dpu)
install(FILES deploy/config/dpu-host-agent.yaml deploy/config/dpu-dra-driver.yaml DESTINATION ${config_dir} COMPONENT host)
configure_file(deploy/debian/dpu-gate.8.in dpu-gate.8 @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/dpu-gate.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT host)
install(FILES deploy/completion/dpuctl COMPONENT host
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(PROGRAMS deploy/completion/kubectl_complete-dpu DESTINATION ${CMAKE_INSTALL_BINDIR}
  COMPONENT host)
foreach(side dpu host)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/dpu-heartbeat-${side}
    RENAME copyright COMPONENT ${side})
endforeach()

# Man pages of the agents, where --help can be run: not when cross-building.
find_program(HELP2MAN help2man)
if(HELP2MAN AND NOT CMAKE_CROSSCOMPILING)
  foreach(pair dpu:dpu-agent host:dpu-host-agent host:dpu-dra-driver)
    string(REGEX REPLACE ":.*" "" side ${pair})
    string(REGEX REPLACE ".*:" "" program ${pair})
    add_custom_command(OUTPUT ${program}.8 DEPENDS ${program} VERBATIM
      COMMAND ${HELP2MAN} --no-info --section=8 --output=${program}.8 $<TARGET_FILE:${program}>)
    list(APPEND man_pages ${program}.8)
    install(FILES ${CMAKE_BINARY_DIR}/${program}.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8
      COMPONENT ${side})
  endforeach()
  # Of dpuctl one page, with the --help of each command.
  add_custom_command(OUTPUT dpuctl.8 VERBATIM
    DEPENDS dpuctl ${PROJECT_SOURCE_DIR}/deploy/man/dpuctl.sh ${PROJECT_SOURCE_DIR}/deploy/man/dpuctl.h2m
    COMMAND ${PROJECT_SOURCE_DIR}/deploy/man/dpuctl.sh $<TARGET_FILE:dpuctl> > dpuctl.h2m
    COMMAND ${HELP2MAN} --no-info --section=8 --include=dpuctl.h2m --output=dpuctl.8 $<TARGET_FILE:dpuctl>)
  list(APPEND man_pages dpuctl.8)
  install(FILES ${CMAKE_BINARY_DIR}/dpuctl.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT host)
  add_custom_target(man ALL DEPENDS ${man_pages})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dpu-heartbeat)
set(CPACK_PACKAGE_VENDOR "the dpu-heartbeat maintainers")
set(CPACK_PACKAGE_CONTACT "the dpu-heartbeat maintainers <maintainers@dpu-heartbeat.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR OFF)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dpu host)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DPU_PACKAGE_NAME dpu-heartbeat-dpu)
set(CPACK_DEBIAN_HOST_PACKAGE_NAME dpu-heartbeat-host)
set(CPACK_DEBIAN_DPU_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_HOST_PACKAGE_DEPENDS "")
set(CPACK_DEBIAN_DPU_DESCRIPTION
  "heartbeat of a DPU to its host's Kubernetes cluster\n dpu-agent renews a Lease while the DPU is healthy.")
set(CPACK_DEBIAN_HOST_DESCRIPTION
  "readiness of the DPU behind a Kubernetes node\n dpu-host-agent judges the DPU's Lease; dpu-gate, a CNI plugin, lets pods in only\n while the DPU is ready; dpu-dra-driver offers the DPU as a DRA device.")
foreach(side dpu host)
  string(TOUPPER ${side} upper)
  set(control)
  foreach(kind postinst prerm postrm conffiles)
    configure_file(deploy/debian/${side}.${kind} debian/${side}/${kind} COPYONLY)
    list(APPEND control ${CMAKE_BINARY_DIR}/debian/${side}/${kind})
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${control}")
endforeach()
include(CPack)
