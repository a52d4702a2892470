# Sourced by scripts that use packages of other Debian releases without installing them.
# shellcheck shell=sh

# debian_mirror: where Debian's packages come from on this machine. MUSTER_DEBIAN_MIRROR names another.
debian_mirror() {
    if [ -n "${MUSTER_DEBIAN_MIRROR:-}" ]; then
        echo "$MUSTER_DEBIAN_MIRROR"
        return
    fi
    # One line for each index that apt reads; the mirror of the main archive, not of security updates.
    apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian Debian //p' | sort -u | head -n 1
}

# suite_apt DIR SUITE COMMAND...: runs an apt tool that knows that suite of Debian only, and keeps its lists
# below DIR.
suite_apt() {
    apt_dir=$1/$2
    apt_suite=$2
    shift 2
    mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $apt_suite main" \
        >"$apt_dir/sources.list"
    : >"$apt_dir/status"
    tool=$1
    shift
    "$tool" -q -o "Dir::Etc::SourceList=$apt_dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o "Dir::State::Lists=$apt_dir/lists" -o "Dir::State::status=$apt_dir/status" \
        -o "Dir::Cache=$apt_dir/cache" -o APT::Sandbox::User=root "$@"
}

# unpack_packages DIR SUITE PACKAGE...: unpacks the suite's newest packages into DIR/SUITE/root.
unpack_packages() {
    unpack_dir=$1
    unpack_suite=$2
    shift 2
    suite_apt "$unpack_dir" "$unpack_suite" apt-get update >"$unpack_dir/apt.log" 2>&1 || {
        tail -n 5 "$unpack_dir/apt.log" >&2
        return 1
    }
    rm -rf "$unpack_dir/$unpack_suite/root" "$unpack_dir/$unpack_suite/debs"
    mkdir -p "$unpack_dir/$unpack_suite/root" "$unpack_dir/$unpack_suite/debs"
    (cd "$unpack_dir/$unpack_suite/debs" &&
        suite_apt "$unpack_dir" "$unpack_suite" apt-get download "$@" >"$unpack_dir/apt.log" 2>&1) || {
        tail -n 5 "$unpack_dir/apt.log" >&2
        return 1
    }
    for deb in "$unpack_dir/$unpack_suite/debs"/*.deb; do
        dpkg-deb -x "$deb" "$unpack_dir/$unpack_suite/root"
    done
}
