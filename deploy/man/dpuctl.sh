#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deploy/man/dpuctl.sh DPUCTL: what help2man adds to dpuctl(8): the --help of each command as a
# section of its own, on top of deploy/man/dpuctl.h2m.
set -eu
dpuctl=$1
cat "$(dirname "$0")/dpuctl.h2m"
"$dpuctl" --help | awk -F '  +' '/^  [a-z]/ { print $2 }' | while read -r command; do
  printf '\n[%s]\n.nf\n' "$(echo "$command" | tr '[:lower:]' '[:upper:]')"
  # shellcheck disable=SC2086 # a command may be two words
  "$dpuctl" $command --help | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/; s/^\[/\\\&[/'
  printf '.fi\n'
done
