# Sourced by the scripts that run containers. runc needs a root directory that is a mount point,
# and that of a plain chroot (a debootstrap root, a rescue system) is not. Then the script starts
# itself again below a mount of the same tree, in a mount namespace that ends with its processes.
# shellcheck shell=sh
if [ "$(id -u)" -eq 0 ] && [ -r /proc/self/mountinfo ] &&
    ! awk '$5 == "/" {found = 1} END {exit !found}' /proc/self/mountinfo; then
    if [ -n "${MUSTER_OWN_ROOT:-}" ]; then
        echo "own-root.sh: / is not a mount point, and could not be made one" >&2
        exit 1
    fi
    MUSTER_OWN_ROOT=$(mktemp -d)
    export MUSTER_OWN_ROOT
    # shellcheck disable=SC2016 # expanded by the inner shells
    exec unshare --mount --propagation unchanged sh -c '
        mount --rbind / "$MUSTER_OWN_ROOT" && mount --make-rprivate "$MUSTER_OWN_ROOT" &&
            exec chroot "$MUSTER_OWN_ROOT" sh -c "cd \"\$0\" && exec sh \"\$@\"" "$@"
    ' own-root "$PWD" "$own_root_script" "$@"
fi
