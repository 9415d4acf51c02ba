#!/usr/bin/env bash
# connect.sh install               fetches Apache Kafka Connect 4.3.1 with its file connectors; prints its folder
# connect.sh DIR PORT BOOTSTRAP    runs a distributed worker in the foreground, its REST on 127.0.0.1:PORT, against the brokers BOOTSTRAP
# DEBEZIUM=postgres|mysql adds that connector of Debezium 3.6.1.Final, which is fetched when it is first asked for.
# KAFKA_HEAP_OPTS sets the heap (Kafka's own default, -Xms256M -Xmx2G); SETTINGS holds further lines of the worker's properties.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
version=4.3.1 # the file connectors of 4.4.0 are not published
name=connect-$version
fetch() {
  jars "$1/lib" org.apache.kafka:connect-runtime:$version org.apache.kafka:connect-json:$version org.apache.kafka:connect-transforms:$version \
    org.apache.logging.log4j:log4j-slf4j-impl:2.25.5
  # A plugin brings what the worker has not.
  jars "$1/plugins/file" -x org.slf4j,com.github.luben,org.xerial.snappy,org.lz4,at.yawk.lz4,jakarta.ws.rs org.apache.kafka:connect-file:$version
  rm -f "$1"/plugins/file/{connect-api,kafka-clients}-*.jar
}
java_packages
assembled "$name" fetch
home=$CACHE/$name
plugins=$home/plugins
if [[ -n ${DEBEZIUM:-} ]]; then
  fetch_debezium() { # beside what the worker has
    jars "$1/plugins/debezium" -x org.slf4j,com.github.luben,org.xerial.snappy,org.lz4,at.yawk.lz4,jakarta.ws.rs,org.apache.kafka \
      "io.debezium:debezium-connector-$DEBEZIUM:3.6.1.Final"
  }
  assembled "debezium-$DEBEZIUM-3.6.1.Final" fetch_debezium
  plugins+=,$CACHE/debezium-$DEBEZIUM-3.6.1.Final/plugins
fi
if [[ ${1:-} == install ]]; then
  echo "$home"
  exit
fi
dir=$1 port=$2 bootstrap=$3
mkdir -p "$dir"
console_log "$dir/log4j2.properties" WARN
cat >"$dir/worker.properties" <<CONF
bootstrap.servers=$bootstrap
listeners=http://127.0.0.1:$port
rest.advertised.host.name=127.0.0.1
rest.advertised.port=$port
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
plugin.path=$plugins
group.id=connect-$port
config.storage.topic=connect-$port-configs
config.storage.replication.factor=1
offset.storage.topic=connect-$port-offsets
offset.storage.replication.factor=1
status.storage.topic=connect-$port-status
status.storage.replication.factor=1
${SETTINGS:-}
CONF
java=$(java_home)/bin/java
# shellcheck disable=SC2086
exec "$java" ${KAFKA_HEAP_OPTS:--Xms256M -Xmx2G} -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 \
  "-Dlog4j2.configurationFile=$dir/log4j2.properties" -Djava.awt.headless=true -cp "$home/lib/*" org.apache.kafka.connect.cli.ConnectDistributed "$dir/worker.properties"
