#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# nft 1.1.7 (Debian sid; 1.0.6 of Debian 12 and 1.1.3 of Debian 13 do the same) takes a rule that matches either of
# two wildcards of interfaces, and can then no longer say which: iifname { "p0*", "p1*" } is listed as { ""/15 }, in
# text and in JSON, and nft refuses to read that back: "Empty string is not allowed". A wildcard is a range of names
# for it. It joins ranges that touch, "p0*" ends where "p1*" begins, and what they make together is no wildcard.
# { "p0*", "p2*" } comes back as it was, and so does a named set of both, unless it has auto-merge.
# Even two rules, one for each, become such a rule with nft's option -o (--optimize).
# Who saves a ruleset by `nft list ruleset >/etc/nftables.conf` gets a file that does not load at the next boot, so
# no rule at all. The two ports of a DPU are called p0 and p1, and what is on top of them p0..., p1....
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the package cannot be had, or the kernel has no nf_tables.
# Needs root, mmdebstrap and a mirror of Debian. All rules are in a network namespace of their own.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
  --aptopt='Acquire::Check-Valid-Until "false"' --include=nftables sid "$dir/sid" >"$dir/log" 2>&1 ||
  { tail -n 5 "$dir/log"; exit 2; }

cat >"$dir/sid/ask" <<'SH'
set -eu
# try WHAT OPTION RULES [SET]: loads the rules, and loads what nft lists then.
try() {
  nft flush ruleset
  printf 'table inet t {\n%s\n chain c {\n%b\n }\n}\n' "${4:-}" "$3" >rules
  nft $2 -f rules >merged 2>&1
  nft list ruleset >listed
  nft flush ruleset
  seen=$(tr -d '\n\t' <listed | grep -o '{ "[^}]*}') || seen="two rules"
  if nft -f listed 2>why; then again=loads; else again=$(head -n 1 why | grep -o 'Error: .*'); fi
  printf '%-24s %-22s %s\n' "$1:" "$seen" "$again"
}
nft --version
try 'p0*, p2*' '' 'iifname { "p0*", "p2*" } accept'
try 'p0*, p1*' '' 'iifname { "p0*", "p1*" } accept'
try 'p0*, p1*, one by one' '' 'iifname "p0*" accept\niifname "p1*" accept'
try 'p0*, p1*, and -o' -o 'iifname "p0*" accept\niifname "p1*" accept'
try 'p0*, p1*, in a set' '' 'iifname @s accept' 'set s { type ifname; flags interval; elements = { "p0*", "p1*" }
 }'
SH
unshare --net chroot "$dir/sid" nft list ruleset >/dev/null 2>&1 || { echo "this kernel has no nf_tables"; exit 2; }
seen=$(unshare --net chroot "$dir/sid" sh /ask)
printf '%s\n' "$seen"
squeezed=$(tr -s ' ' <<<"$seen")
wanted='p0*, p2*: { "p0*", "p2*" } loads
p0*, p1*: { ""/15 } Error: Empty string is not allowed
p0*, p1*, one by one: two rules loads
p0*, p1*, and -o: { ""/15 } Error: Empty string is not allowed
p0*, p1*, in a set: { "p0*", "p1*" } loads'
[[ $(tail -n 5 <<<"$squeezed") == "$wanted" ]]
