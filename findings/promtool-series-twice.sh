#!/bin/sh
# Prometheus 2.42 (Debian 12): `promtool check metrics` finds no fault with a text that has one series twice, with two
# values. The server scrapes such a text with `up` 1, keeps the first value and drops the second without a word in its
# log. The other way round, promtool refuses texts that the server scrapes whole: one in which a family is told in two
# parts, and one whose last line has no end.
#
# A test that has promtool check what a program exports does not see series that stand twice, then: the program's own
# test has to look for them. And a text that promtool refuses may have been scraped well for years.
#
# Needs apt with a mirror of Debian 12, curl and python3. Installs nothing. Fails if the behaviour is not there any more.
set -eu
cd "$(dirname "$0")/.."
. deploy/debian-packages.sh
version=2.42.0+ds-5+deb12u1
mirror=$(debian_mirror)
work=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT
unpack_packages "$work" bookworm "prometheus=$version"
bin=$work/bookworm/root/usr/bin
echo "prometheus $version"
cd "$work"

printf '# HELP one One.\n# TYPE one gauge\none{at="1"} 1\none{at="1"} 2\n' >twice
printf '# HELP one One.\n# TYPE one gauge\none{at="1"} 1\n# HELP two Two.\n# TYPE two gauge\ntwo 1\n' >parts
printf '# HELP one One.\n# TYPE one gauge\none{at="2"} 2\n' >>parts
printf '# HELP one One.\n# TYPE one gauge\none 1' >open

# A web server with the content type of the text format, which says where it listens.
cat >serve.py <<'PYTHON'
import http.server

class Texts(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("." + self.path, "rb") as file:
            text = file.read()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Texts)
with open("port", "w") as file:
    file.write(f"{server.server_port}\n")
server.serve_forever()
PYTHON
python3 serve.py &
pids=$!
until [ -s port ]; do sleep 0.1; done

{
    printf 'global: {scrape_interval: 1s}\nscrape_configs:\n'
    for text in twice parts open; do
        printf -- '- job_name: %s\n  metrics_path: /%s\n' $text $text
        printf "  static_configs: [{targets: ['127.0.0.1:%s']}]\n" "$(cat port)"
    done
} >prometheus.yml
listen=127.0.0.1:$((20000 + $$ % 10000))
"$bin/prometheus" --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=$listen >log 2>&1 &
pids="$pids $!"

# values EXPRESSION: the values that it has now, on one line.
values() {
    curl -fsSG --data-urlencode "query=$1" "http://$listen/api/v1/query" 2>/dev/null |
        python3 -c 'import json, sys
print(*sorted(one["value"][1] for one in json.load(sys.stdin)["data"]["result"]))' 2>/dev/null || true
}
tries=0
until [ "$(values 'count_over_time(up[30s]) > 3')" ] && [ "$(values 'sum(up)')" = 3 ]; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { tail -n 5 log >&2; exit 1; }
    sleep 0.5
done

for text in twice parts open; do
    code=0
    said=$("$bin/promtool" check metrics <$text 2>&1) || code=$?
    echo "$text: promtool exits $code${said:+ ($said)}; up is $(values "up{job=\"$text\"}"), one is $(values "one{job=\"$text\"}")"
    echo "$code $(values "up{job=\"$text\"}") $(values "one{job=\"$text\"}")" >>seen
done
warnings=$(grep -c 'level=\(warn\|error\)' log || true)
echo "lines of the server's log that are warnings: $warnings"
printf '0 1 1\n1 1 1 2\n1 1 1\n' | cmp - seen
[ "$warnings" -eq 0 ]
