#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# purge.sh ROOT: purges the packages in ROOT/dpu-heartbeat-*.deb there, once for each way in which a file or a
# directory of theirs may be missing or be something else. Each purge has to succeed, and to leave alone what is
# not the packages' own. ROOT is a Debian with their libraries. Needs root; run.sh calls it.
set -euo pipefail
root=$1

in_root() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

bad=0
fail() { # fail CASE WHAT
  printf 'FAILED: purge, %s: %s\n' "$1" "$2" >&2
  bad=$((bad + 1))
}

# What an admin has elsewhere, which looks like ours: records, a credential, a directory of others.
make_theirs() {
  rm -rf "$root"/srv/*
  mkdir -p "$root/srv/run/sub" "$root/srv/etc" "$root/srv/empty"
  for file in run/readiness.json run/readiness.json.lock run/sub/x.json etc/token precious; do
    echo theirs >"$root/srv/$file"
  done
}
list_theirs() { (cd "$root/srv" && find . -printf '%p %y %U\n' | sort && find . -type f -exec sha256sum {} + | sort); }

# Each case: what it is, then what an admin, a boot or a crash has done before the purge.
cases=()
purge_case() { cases+=("$1" "$2"); }
purge_case "all is as it was installed" :
purge_case "/run was emptied, a credential is left" 'rm -rf /run/dpu-heartbeat; echo >/etc/dpu-heartbeat/token'
purge_case "/run was emptied, nothing is left" 'rm -rf /run/dpu-heartbeat'
purge_case "the configuration was removed" 'rm -rf /etc/dpu-heartbeat'
purge_case "the configuration's directory is empty" 'rm -rf /etc/dpu-heartbeat; mkdir /etc/dpu-heartbeat'
purge_case "all was removed" 'rm -rf /etc/dpu-heartbeat /run/dpu-heartbeat'
purge_case "/run/dpu-heartbeat is a link" 'rm -rf /run/dpu-heartbeat; ln -s /srv/run /run/dpu-heartbeat'
purge_case "/run/dpu-heartbeat is a link to nothing" 'rm -rf /run/dpu-heartbeat; ln -s /srv/gone /run/dpu-heartbeat'
purge_case "/run/dpu-heartbeat is a link to what is empty" 'rm -rf /run/dpu-heartbeat; ln -s /srv/empty /run/dpu-heartbeat'
purge_case "/run/dpu-heartbeat is a file" 'rm -rf /run/dpu-heartbeat; echo >/run/dpu-heartbeat'
purge_case "the configuration is a link" 'rm -rf /etc/dpu-heartbeat; ln -s /srv/etc /etc/dpu-heartbeat'
purge_case "the configuration is a link to nothing" 'rm -rf /etc/dpu-heartbeat; ln -s /srv/gone /etc/dpu-heartbeat'
purge_case "the configuration is a link to what is empty" 'rm -rf /etc/dpu-heartbeat; ln -s /srv/empty /etc/dpu-heartbeat'
purge_case "a record is a link" 'ln -s /srv/precious /run/dpu-heartbeat/dpu1.json'
purge_case "a lock is a link to nothing" 'ln -sf /srv/gone /run/dpu-heartbeat/readiness.json.lock'
purge_case "a directory is called like a record" 'mkdir /run/dpu-heartbeat/a.json; echo >/run/dpu-heartbeat/a.json/x'
purge_case "systemd does not do as it is told" 'mkdir -p /run/systemd/system; printf "#!/bin/sh\nexit 1\n" >/bin/systemctl; chmod +x /bin/systemctl'
purge_case "systemd runs without its program" 'mkdir -p /run/systemd/system'
purge_case "the user is gone" 'userdel dpu-heartbeat'
purge_case "the user cannot be removed" 'printf "#!/bin/sh\nexit 8\n" >/usr/local/sbin/userdel; chmod +x /usr/local/sbin/userdel'

install_packages() {
  rm -rf "$root/etc/dpu-heartbeat" "$root/run/dpu-heartbeat" "$root/run/systemd" "$root/bin/systemctl" \
    "$root/usr/local/sbin/userdel"
  in_root sh -c 'dpkg -i --force-confmiss --force-unsafe-io /dpu-heartbeat-*.deb && mkdir -p /run/dpu-heartbeat && cd /run/dpu-heartbeat &&
    touch readiness.json readiness.json.lock dpu1.json.crashed readiness.json.cni .readiness.json.dpu-new.a1b2c3' >/dev/null 2>&1
}

purge() { # purge CASE PREPARE VERB PACKAGE...: VERB -r removes the packages before, as months ago
  local name=$1 prepare=$2 verb=$3 package before
  shift 3
  make_theirs
  before=$(list_theirs)
  install_packages
  [[ $prepare != *userdel* ]] || in_root getent passwd dpu-heartbeat >/dev/null ||
    fail "$name" "the case has no user to begin with"
  [[ $verb != -r ]] || in_root dpkg -r "$@" >"$root/purge.log" 2>&1 ||
    fail "$name" "dpkg -r $*: $(tail -n 5 "$root/purge.log")"
  in_root sh -c "$prepare" || fail "$name" "the case cannot be made"
  # shellcheck disable=SC2016 # for the shell in there
  if ! in_root sh -c 'PATH=/usr/local/sbin:$PATH exec dpkg -P "$@"' sh "$@" >"$root/purge.log" 2>&1; then
    fail "$name" "dpkg -P $*: $(tail -n 5 "$root/purge.log")"
    in_root sh -c 'rm -rf /etc/dpu-heartbeat /run/dpu-heartbeat; rm -f /var/lib/dpkg/info/dpu-heartbeat-*.postrm; dpkg -P "$@"' \
      sh "$@" >/dev/null 2>&1 || true # for the next case
  fi
  for package in "$@"; do
    ! in_root dpkg-query -W "$package" >/dev/null 2>&1 || fail "$name" "$package is still known to dpkg"
  done
  [[ $(list_theirs) == "$before" ]] || fail "$name" "something of others changed: $(diff <(echo "$before") <(list_theirs))"
  if [[ -d $root/run/dpu-heartbeat && ! -L $root/run/dpu-heartbeat ]]; then
    [[ -z $(find "$root/run/dpu-heartbeat" -mindepth 1 -maxdepth 1 ! -type d) ]] || fail "$name" "files of ours are left"
  fi
}

checks=0
for ((i = 0; i < ${#cases[@]}; i += 2)); do
  purge "${cases[i]}" "${cases[i + 1]}" -P dpu-heartbeat-host dpu-heartbeat-dpu
  purge "${cases[i]}, removed before" "${cases[i + 1]}" -r dpu-heartbeat-dpu dpu-heartbeat-host
  checks=$((checks + 2))
done

# A credential keeps its user, wherever it is: nobody else may get that number.
for credential in /etc/dpu-heartbeat/token '-> a directory' '-> a file'; do
  install_packages
  make_theirs
  case $credential in
  '-> a directory') in_root sh -c 'rm -r /etc/dpu-heartbeat; ln -s /srv/etc /etc/dpu-heartbeat; chown dpu-heartbeat /srv/etc/token' ;;
  '-> a file') in_root sh -c 'ln -s /srv/precious /etc/dpu-heartbeat/token; chown dpu-heartbeat /srv/precious' ;;
  *) in_root install -o dpu-heartbeat -m 0600 /dev/null "$credential" ;;
  esac
  in_root dpkg -P dpu-heartbeat-host dpu-heartbeat-dpu >"$root/purge.log" 2>&1 || fail "credential $credential" "$(tail -n 5 "$root/purge.log")"
  in_root getent passwd dpu-heartbeat >/dev/null || fail "credential $credential" "its user is gone"
  in_root userdel dpu-heartbeat
  checks=$((checks + 1))
done
rm -rf "$root/etc/dpu-heartbeat" "$root/run/dpu-heartbeat" "$root"/srv/* "$root/purge.log"
((bad == 0)) || exit 1
echo "$checks"
