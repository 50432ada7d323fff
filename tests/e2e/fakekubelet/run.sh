#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The fake kubelet against the DRA plugin of a build: run.sh [BUILD-DIR [GO-TEST-FLAG...]].
# Exit status 77: skipped, because Go (or its module cache and network) is not there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DPU_BUILD_DIR=$(cd "${1:-$here/../../../build/dev}" && pwd)
export DPU_BUILD_DIR
[ $# -eq 0 ] || shift
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
  echo "fake kubelet: skipped: Go is not installed; put the version of go.mod into /usr/local/go or on the PATH"
  exit 77
fi
cd "$here"
if ! go mod download >/dev/null 2>&1; then
  echo "fake kubelet: skipped: its Go modules are neither cached nor to be had"
  exit 77
fi
exec go test -count=1 -timeout=5m "$@" ./...
