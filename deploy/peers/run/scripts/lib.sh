# lib.sh: what the scripts of the peers share. CACHE is the folder that outlives a run: programs and jars are put together there once.
# shellcheck shell=bash
: "${CACHE:=${XDG_CACHE_HOME:-${HOME:?neither CACHE nor HOME is set}/.cache}/millrace/peers}"
mkdir -p "$CACHE"

say() { echo "$(basename "$0"): $*" >&2; }
die() {
  say "$@"
  exit 1
}

# locked NAME COMMAND…: runs COMMAND while nobody else on this machine runs one under that name, so that two runs share one installation.
locked() {
  local fd
  exec {fd}>"$CACHE/$1.lock"
  flock "$fd"
  "${@:2}" {fd}>&-
  exec {fd}>&-
}

# packages COMMAND PACKAGE…: installs Debian's packages unless COMMAND can be run already, or is a function here and says yes.
have() { if [[ $(type -t "$1") == function ]]; then "$1"; else command -v "$1" >/dev/null; fi; }
packages() { have "$1" || locked apt apt_install "$@"; }
apt_install() {
  have "$1" && return
  local as=()
  if (($(id -u) != 0)); then
    as=(sudo -n)
    sudo -n true 2>/dev/null || die "$1 is not installed, and this user is neither root nor may use sudo without a password; install ${*:2}"
  fi
  command -v apt-get >/dev/null || die "$1 is not installed and there is no apt-get here; install ${*:2}"
  say "installing ${*:2}"
  "${as[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >&2 || "${as[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >&2
  "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "${@:2}" >&2
}

# unstable DIR PACKAGE…: fetches packages of Debian's unstable with all they need (the C library, too) and leaves the .deb files in DIR/debs. Nothing
# is installed: the system's own packages stay as they are. The mirror is the one that the system's packages come from.
unstable() { debs "$@" || { say "the packages did not come, trying again" && debs "$@"; }; }
debs() {
  local dir=$1 mirror apt key=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    grep -E '^(URIs:|deb )' | grep -v security | grep -oE 'https?://[^ ]+' | head -n 1) || true
  [[ -n $mirror ]] || die "the system's sources of packages name no mirror of Debian (/etc/apt/sources.list, /etc/apt/sources.list.d)"
  [[ -r $key ]] || die "there is no $key; install Debian's package debian-archive-keyring"
  mkdir -p "$dir"/{lists/partial,debs/partial} || return 1
  : >"$dir/status"
  echo "deb [signed-by=$key] $mirror unstable main" >"$dir/sources.list"
  apt=(apt-get -q -y --no-install-recommends -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Acquire::Retries=3
    -o Acquire::Languages=none -o APT::Sandbox::User=root -o "Dir::State::Lists=$dir/lists" -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir"
    -o "Dir::Cache::archives=$dir/debs")
  "${apt[@]}" update >&2 && "${apt[@]}" --download-only install "${@:2}" >&2 && rm -rf "$dir/lists" "$dir/status" "$dir/sources.list" "$dir"/*pkgcache.bin
}

java_home() { dirname "$(dirname "$(readlink -f "$(command -v "${1:-java}")")")"; }
# A JDK, not only a runtime: two peers are compiled against the jars that were fetched.
java_packages() {
  packages javac openjdk-17-jdk-headless
  packages mvn maven
}

# newer_java N: the folder of a JDK of at least that version, which Debian 12 does not have.
newer_java() {
  local home version
  for home in "${JAVA_NEWER_HOME:-}" "$(java_home javac)" /usr/lib/jvm/*; do
    [[ -x $home/bin/javac ]] || continue
    version=$("$home/bin/javac" -version 2>&1 | grep -oE '[0-9]+' | head -n 1)
    if ((version >= $1)); then
      echo "$home"
      return
    fi
  done
  die "there is no JDK of version $1 or newer below /usr/lib/jvm; install one, or name its folder in JAVA_NEWER_HOME"
}

# jars OUT [-x GROUPS] GROUP:ARTIFACT:VERSION…: those jars from Maven's repositories with all they need at run time.
jars() {
  local out=$1 excluded=none pom g a v c
  shift
  if [[ $1 == -x ]]; then excluded=$2 && shift 2; fi
  pom=$(mktemp -d "$CACHE/pom.XXXXXX")
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>millrace.peers</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    for c in "$@"; do
      IFS=: read -r g a v <<<"$c"
      echo "<dependency><groupId>$g</groupId><artifactId>$a</artifactId><version>$v</version></dependency>"
    done
    echo '</dependencies></project>'
  } >"$pom/pom.xml"
  fetch_jars "$pom" "$excluded" "$out" || fetch_jars "$pom" "$excluded" "$out"
  rm -rf "$pom"
}

# Maven ends its colours even where it was told to have none.
fetch_jars() {
  mvn -q -B -Dstyle.color=never -f "$1/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "-DexcludeGroupIds=$2" "-DoutputDirectory=$3" 2>&1 |
    sed $'s/\e\\[[0-9;]*m//g' >&2
}

# assembled NAME FUNCTION: makes $CACHE/NAME by running FUNCTION in a folder beside it, which takes the name only when it is whole.
assembled() { [[ -e $CACHE/$1/.complete ]] || locked "$1" assemble "$@"; }
assemble() {
  [[ ! -e $CACHE/$1/.complete ]] || return 0
  say "putting $1 together in $CACHE (the first time only)"
  local part=$CACHE/$1.part
  rm -rf "$part" "${CACHE:?}/$1"
  mkdir -p "$part"
  "$2" "$part"
  touch "$part/.complete"
  mv "$part" "$CACHE/$1"
}

# console_log FILE LEVEL: a log4j 2 configuration that writes to standard output.
console_log() {
  cat >"$1" <<LOG
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c{1})%n
rootLogger.level = $2
rootLogger.appenderRef.out.ref = out
LOG
}
