#!/usr/bin/env bash
# kcat.sh install                installs kcat (Debian's package) if there is none
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
[[ ${1:-} == install ]] || die "usage: kcat.sh install"
packages kcat kcat
