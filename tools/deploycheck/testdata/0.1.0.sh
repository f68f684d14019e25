#!/bin/sh
# Writes 0.1.0.tar.gz: a data folder of version 0.1.0, with two accounts, a sub-key and calls, and beside it what
# must be there after an upgrade. The argument is a program of that version:
#
#   git worktree add --detach /tmp/old e1fb0987 && (cd /tmp/old && go build -o /tmp/sluice-0.1.0 ./cmd/sluice)
#   ./0.1.0.sh /tmp/sluice-0.1.0
set -eu
here=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$1" serve --listen 127.0.0.1:18081 --metrics-listen '' >out 2>log &
server=$!
until curl -sf http://127.0.0.1:18081/readyz >/dev/null; do kill -0 $server; sleep 0.1; done
"$1" account create --email ana@example.com --plan basic --json >account.json
key=$(sed -n 's/.*"master_key": "\(.*\)".*/\1/p' account.json)
id=$(sed -n 's/.*"id": "\(.*\)".*/\1/p' account.json | head -n 1)
"$1" key create "$id" --name worker --json >worker.json
worker=$(sed -n 's/.*"\(key\|secret\)": "\(service-.*\)".*/\2/p' worker.json)
for stream in false true true; do
	curl -sf http://127.0.0.1:18081/v1/chat/completions -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
		-d "{\"model\":\"sandbox/small\",\"stream\":$stream,\"messages\":[{\"role\":\"user\",\"content\":\"What is 17 * 23 + 4?\"}]}" >/dev/null
done
curl -sf http://127.0.0.1:18081/v1/models -H "Authorization: Bearer $worker" >/dev/null
"$1" usage "$id" --json >usage.json
cat usage.json account.json worker.json >&2
kill -TERM $server
wait $server
printf '%s\n' "$id" >id
printf '%s\n' "$key" >key
printf '%s\n' "$worker" >worker
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf "$here/0.1.0.tar.gz" data id key worker
