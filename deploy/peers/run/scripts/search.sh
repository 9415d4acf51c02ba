#!/usr/bin/env bash
# search.sh opensearch|elasticsearch VERSION install            puts a node together; prints its folder
# search.sh opensearch|elasticsearch VERSION DIR PORT TRANSPORT   runs it in the foreground on 127.0.0.1:PORT, data in DIR
#
# Real OpenSearch (1 to 3) and Elasticsearch (7 to 9), search.go has the versions: the published server jars with those of their modules
# that are published, laid out as a distribution has them and started by a few lines of Java (search-*.java), since the distributions are
# no Maven artifacts. Plain HTTP, no security, one node (so an index with replicas stays yellow). OpenSearch has reindex, from 2 on painless
# and the common analysis, and in 2 the ingest processors. Elasticsearch 8 and 9 are the server and its HTTP transport, and a small module of ours
# (root-elasticsearch.java) answers GET /; 7 has that itself, and reindex.
# OpenSearch 3 and Elasticsearch 9 want a Java of 21 or newer.
# SETTINGS holds further lines of the configuration, e.g. 'indexing_pressure.memory.limit: 2kb': then larger bulk requests get 429.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 version=$2
shift 2
java_packages
case $kind-$version in
  opensearch-3.* | elasticsearch-9.*) JAVA_HOME=$(newer_java 21) || exit ;;
  *) JAVA_HOME=$(java_home javac) ;;
esac
export JAVA_HOME

# module HOME NAME JAR…: moves jars, the module's own first, from the server's class path into a folder of its own.
module() {
  local home=$1 name=$2 extends='' class jar own
  mkdir -p "$home/modules/$name"
  # shellcheck disable=SC2086
  for jar in "${@:3}"; do mv "$home"/lib/$jar "$home/modules/$name/"; done
  own=$(compgen -G "$home/modules/$name/$3")
  class=$("$JAVA_HOME/bin/jar" tf "$own" | grep -E '([a-z4]Plugin|^Root)\.class$' | tr / .)
  case $name in analysis-common | ingest-common) extends=lang-painless ;; esac
  {
    printf '%s\n' "name=$name" "description=$name" "version=$version" "$kind.version=$version" java.version=1.8 "classname=${class%.class}"
    [[ $kind == elasticsearch ]] || echo "extended.plugins=$extends"
  } >"$home/modules/$name/plugin-descriptor.properties"
}

opensearch() {
  local home=$1 p=org.opensearch.plugin loader=$version log4j=2.25.4 netty=('netty-*') name names=(transport-netty4 mapper-extras parent-join reindex)
  case $version in
    1.*) loader=2.19.6 log4j=2.17.1 ;; # its own loader was not published
    2.*) names+=(lang-painless analysis-common ingest-common) ;;
    3.*) names+=(lang-painless analysis-common) log4j=2.25.5 netty=() ;;
  esac
  # shellcheck disable=SC2046
  jars "$home/lib" "org.opensearch:opensearch:$version" "org.opensearch:opensearch-plugin-classloader:$loader" "org.apache.logging.log4j:log4j-core:$log4j" \
    $(for name in "${names[@]}"; do echo "$p:$(jar_name "$name"):$version"; done)
  for name in "${names[@]}"; do
    local more=()
    case $name in
      transport-netty4) more=("${netty[@]}") ;;
      lang-painless) more=('opensearch-scripting-painless-spi-*' 'antlr4-*' 'asm-*') ;;
      ingest-common) more=('opensearch-grok-*' 'opensearch-dissect-*') ;;
    esac
    module "$home" "$name" "$(jar_name "$name")-$version.jar" "${more[@]}"
  done
}
# Most modules are published as the libraries of OpenSearch's Java client.
jar_name() { case $1 in lang-painless | analysis-common | ingest-common) echo "$1" ;; *) echo "$1-client" ;; esac; }

elasticsearch() {
  local home=$1 p=org.elasticsearch.plugin
  if [[ $version == 7.* ]]; then
    jars "$home/lib" "org.elasticsearch:elasticsearch:$version" "org.elasticsearch:elasticsearch-plugin-classloader:$version" \
      "$p:transport-netty4-client:$version" "$p:mapper-extras-client:$version" "$p:parent-join-client:$version" "$p:reindex-client:$version"
    module "$home" transport-netty4 "transport-netty4-client-$version.jar" 'netty-*'
    module "$home" mapper-extras "mapper-extras-client-$version.jar"
    module "$home" parent-join "parent-join-client-$version.jar"
    module "$home" reindex "reindex-client-$version.jar" 'elasticsearch-rest-client-*' 'http*' 'commons-*' 'elasticsearch-ssl-config-*'
    return
  fi
  jars "$home/lib" "org.elasticsearch:elasticsearch:$version" "$p:transport-netty4:$version"
  module "$home" transport-netty4 "transport-netty4-$version.jar" 'netty-*'
  mkdir "$home/root"
  cp "$here/root-elasticsearch.java" "$home/Root.java"
  "$JAVA_HOME/bin/javac" -nowarn -cp "$home/lib/*" -d "$home/root" "$home/Root.java" >&2
  "$JAVA_HOME/bin/jar" --create --file "$home/lib/rest-root.jar" -C "$home/root" .
  module "$home" rest-root rest-root.jar
}

build() {
  "$kind" "$1"
  cp "$here/search-$kind.java" "$1/Server.java"
  "$JAVA_HOME/bin/javac" -nowarn -cp "$1/lib/*" -d "$1/lib" "$1/Server.java" >&2
}

case $kind in
  opensearch | elasticsearch) ;;
  *) die "opensearch or elasticsearch, not $kind" ;;
esac
assembled "$kind-$version" build
home=$CACHE/$kind-$version
if [[ ${1:-} == install ]]; then
  echo "$home"
  exit
fi
dir=$1 port=$2 transport=$3
mkdir -p "$dir/config" "$dir/plugins"
[[ -e $dir/modules ]] || ln -s "$home/modules" "$dir/modules"
console_log "$dir/config/log4j2.properties" warn
printf '%s\n' 'logger.native.name = org.elasticsearch.nativeaccess' 'logger.native.level = off' >>"$dir/config/log4j2.properties"
cat >"$dir/config/$kind.yml" <<CONF
cluster.name: peer
node.name: peer
network.host: 127.0.0.1
http.port: $port
transport.port: $transport
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
${SETTINGS:-}
CONF
cd "$dir"
exec "$JAVA_HOME/bin/java" -Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dfile.encoding=UTF-8 -Djava.awt.headless=true \
  -Dopensearch.networkaddress.cache.ttl=60 -Des.networkaddress.cache.ttl=60 -Dlog4j2.disable.jmx=true -Dio.netty.noUnsafe=true \
  -Djava.net.preferIPv4Stack=true --add-opens=java.base/java.io=ALL-UNNAMED -cp "$home/lib:$home/lib/*" Server "$dir" "$version"
