# The step `docs` of deploy/vm.sh: the commands of docs/install.md, word for word, on a machine that has a web
# server called HOST with the repository. Sourced by trial.sh.
# shellcheck shell=sh

# blocks SECTION: the commands below a heading of install.md, each block in a file marks/block-N.
blocks() {
    rm -f marks/block-*
    awk -v section="## $1" '
        /^## / { inside = $0 == section }
        inside && /^```sh/ { n++; reading = 1; next }
        /^```/ { reading = 0 }
        reading { print > ("marks/block-" n) }' install.md
    ls marks/block-*
}

# follow SECTION: runs its blocks as an administrator would type them, with yes to every question. Left out are the
# commands that make the package, which run on another machine, and the one with TASK, a placeholder.
follow() {
    blocks "$1"
    for block in marks/block-*; do
        if grep -q '^sh deploy/\|TASK$' "$block"; then continue; fi
        # Its registry is not here.
        if grep -q -e '--image busybox' "$block"; then muster image import busybox.tar --name busybox; fi
        echo "--- $1:"
        cat "$block"
        yes | sh -ex "$block"
    done
}

step_docs() {
    own_archives
    # As Debian's installer leaves a machine, but for a network.
    apt_install wget busybox nftables
    rm /etc/apt/sources.list.d/muster.sources
    mkdir -p /srv/muster
    cp -r repo/. /srv/muster/
    sed -i 's,^URIs: .*,URIs: http://HOST/muster,' /srv/muster/muster.sources
    echo '127.0.0.1 HOST' >>/etc/hosts
    busybox httpd -p 80 -h /srv
    began=$(now)
    follow Installing
    muster_at=$(($(now) - began))
    follow Settings
    nft add table inet filter
    nft add chain inet filter input '{ type filter hook input priority 0; }'
    follow 'Ports and firewall'
    rm /etc/apt/preferences.d/trial
    follow Upgrading
    [ "$(installed_version muster)" = "$(versions muster | tail -n 1)" ]
    follow Removing
    ! command -v muster
    # The README's way, without a repository.
    mkdir -p target/deb
    cp repo/muster_*+trial1_amd64.deb target/deb/
    rm /etc/apt/sources.list.d/muster.sources
    sed -n 's/^\(apt install .*deb\) .*/\1/p' README.md >marks/block
    cat marks/block
    yes | sh -ex marks/block
    muster node show
    detail "installed and used in $((muster_at / 100)) s"
}
