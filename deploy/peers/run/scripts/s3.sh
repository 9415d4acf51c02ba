#!/usr/bin/env bash
# s3.sh install     builds the server; prints its program
# s3.sh DIR PORT    runs it in the foreground on 127.0.0.1:PORT, data in DIR
#
# A real S3 server, versitygw 1.8.0 on plain files, over plain HTTP. Access key "test", secret key "testtesttest", region us-east-1,
# path-style addresses. Buckets and objects are folders and files under DIR/data; the bucket "test" is there from the start.
# What belongs to a file and is not its content lies in DIR/meta, so that no extended attributes are needed. Built with go install.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
version=v1.8.0
home=$CACHE/versitygw-$version

build() { GOBIN=$1 GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2; }
assembled "versitygw-$version" build
if [[ $1 == install ]]; then
  echo "$home/versitygw"
  exit
fi
mkdir -p "$1"/{data/test,meta}
export ROOT_ACCESS_KEY=test ROOT_SECRET_KEY=testtesttest
exec "$home/versitygw" --port "127.0.0.1:$2" --region us-east-1 --health /health --quiet posix --sidecar "$1/meta" "$1/data"
