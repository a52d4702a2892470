#!/bin/sh
# Gets what the tests of the pages need: Chromium and Node.js from the distribution, and two packages of npm, which
# are checked against their hashes. Chromium of Ubuntu is a snap: there the browser of playwright is taken.
#
# Usage: sh deploy/browser.sh        puts the packages into target/browser/node_modules
set -eu
cd "$(dirname "$0")/.."
to=${CARGO_TARGET_DIR:-target}/browser/node_modules

# Unpacks a package of npm. Arguments: name, version, SHA-512 in base64.
package() {
    [ "$(cat "$to/$1/.version" 2>/dev/null)" != "$2" ] || return 0
    file=$(mktemp)
    curl -fsSL --retry 3 -o "$file" "https://registry.npmjs.org/$1/-/$1-$2.tgz"
    found=$(openssl dgst -sha512 -binary "$file" | openssl base64 -A)
    if [ "$found" != "$3" ]; then
        rm -f "$file"
        echo "browser.sh: $1 $2 is not what it was: its SHA-512 is $found" >&2
        exit 1
    fi
    rm -rf "${to:?}/$1"
    mkdir -p "$to/$1"
    tar -xzf "$file" -C "$to/$1" --strip-components=1
    rm -f "$file"
    echo "$2" >"$to/$1/.version"
}

sh deploy/install.sh node:nodejs curl:curl openssl:openssl tar:tar
package playwright-core 1.49.1 BzmpVcs4kE2CH15rWfzpjzVGhWERJfmnXmniSyKeRZUs9Ws65m+RGIi7mjJK/euCegfn3i7jvqWeWyHe9y3Vgg==
package axe-core 4.10.2 RE3mdQ7P3FRSe7eqCWoeQ/Z9QXrtniSjp1wUjt5nRC3WIpz5rSCve6o3fsZ2aCpJtrZjSZgjwXAoTO5k4tEI0w==

case $(. /etc/os-release && echo "${ID:-}") in
    ubuntu) command -v chromium >/dev/null || node "$to/playwright-core/cli.js" install --with-deps chromium ;;
    *) sh deploy/install.sh chromium:chromium ;;
esac
