#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [VERSION]...: the programs and tests in build/dev with each of these versions of libcurl (by default
# with all that matter), in place of Debian's: the unit tests of what calls it, and the integration tests of
# credentials, names, outages and servers that fail. With the headers of the oldest the programs are built, too. Prints a row of
# a table for each. build.sh says where libcurl is from.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

oldest=7.81.0
logs=$PWD/build/logs/curl
# The oldest (Ubuntu 22.04), Ubuntu 24.04's, Debian 13's, and those whose behaviour changed.
(($# > 0)) || set -- "$oldest" 8.5.0 8.14.1 8.20.0 8.21.0 8.22.0

units='^unit\.(curl_head|curl_loop|kube_client|kube_answer|kube_watch|grpc_unary|grpc_server|probe|probe_spec)$'
cases=(tests/integration/test_credentials.py tests/integration/test_names.py
  tests/integration/test_servers.py::test_a_dead_dpu_is_found_although_the_hosts_server_fails
  tests/integration/test_outage.py::test_a_name_server_that_says_nothing_does_not_hold_up_the_agent
  tests/integration/test_dpuctl.py::test_a_server_that_says_nothing_costs_the_timeout)

run_with() { # run_with PREFIX [PYTEST ARGUMENT]...
  local lib=$1/lib
  shift
  LD_LIBRARY_PATH=$lib ldd build/dev/dpu-agent/dpu-agent | grep -F "$lib/libcurl.so.4" &&
    LD_LIBRARY_PATH=$lib ctest --test-dir build/dev -R "$units" -j "$(nproc)" --output-on-failure &&
    LD_LIBRARY_PATH=$lib DPU_BIN_DIR=$PWD/build/dev /usr/bin/python3 -m pytest -q -o addopts=--strict-markers \
      "${cases[@]}" "$@" -n "$((3 * $(nproc)))"
}

# Warnings are errors.
build_with() { # build_with PREFIX
  PKG_CONFIG_PATH=$1/lib/pkgconfig cmake --preset release -B build/curl -DDPU_WERROR=ON &&
    cmake --build build/curl
}

run_version() { # run_version VERSION
  local prefix
  prefix=$(tests/curl/build.sh "$1") || return 1
  if [[ $1 != "$oldest" ]]; then
    run_with "$prefix"
  else
    # Names are refused there (test_a_name_is_refused_where_libcurl_would_wait_for_it), and each
    # handshake is a whole one: it does not find its TLS session again.
    build_with "$prefix" && run_with "$prefix" -m "not by_name" -k "not resumes_the_tls_session"
  fi
}

mkdir -p "$logs"
bad=0
for version in "$@"; do
  began=$SECONDS
  result=passed
  run_version "$version" >"$logs/$version.log" 2>&1 || { result=FAILED; bad=1; }
  printf '| libcurl %s | %s | %d s |\n' "$version" "$result" $((SECONDS - began))
  [[ $result == passed ]] || tail -n 40 "$logs/$version.log"
done
exit "$bad"
