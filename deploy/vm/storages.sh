# The steps `storages` of deploy/vm.sh: a real NFS server of the kernel and Samba, whose files tasks use; servers that
# go away under load and come back, a full disk, a password that is wrong. Sourced by trial.sh.
# shellcheck shell=sh

# storage_job NAME STORAGES COMMAND: submits a job with these entries of extras.storages.
storage_job() { job "$1" 0 1 "$3" 64 "extras: {storages: [$2]}"; }

# works NAME STORAGES COMMAND: the job succeeds.
works() {
    storage_job "$@"
    wait_for "the end of $1" 60 has_ended "$1" && is "$1" SUCCEEDED ||
        { muster job show "$1"; muster job logs "$1"; return 1; }
}
has_ended() { case $(state "$1") in SUCCEEDED | FAILED | STOPPED) ;; *) return 1 ;; esac; }
# was_told NAME TEXT: what is shown of the job has the text.
was_told() { muster job show "$1" | tr '\n' ' ' | tr -s ' ' | grep -q "$2"; }
# in_storages COMMAND...: runs a command where storages are mounted.
in_storages() { nsenter --mount=/var/lib/muster/storages/namespace/mnt "$@"; }
# not COMMAND...: a failure where it succeeds; a shell's ! stops nothing.
not() { if "$@"; then return 1; fi; }
mounted_storages() { in_storages grep -c ' /var/lib/muster/storages/mounts/' /proc/thread-self/mountinfo; }

step_storages_install() {
    own_archives
    apt-get install -y --no-install-recommends muster jq busybox nftables
    sed -i 's/^# cpu_overcommit = .*/cpu_overcommit = 64.0/; s/^# memory_overcommit = .*/memory_overcommit = 4.0/' \
        /etc/muster/agent.toml
    systemctl restart muster
    mkdir -p /srv/open /srv/squash/admin /srv/small /srv/plain
    chown 4711:4711 /srv/squash/admin
    echo 'from the server' | tee /srv/open/data /srv/plain/data
    mount -t tmpfs -o size=16M small /srv/small
    cat >/etc/exports <<'EXPORTS'
/srv/open 127.0.0.1(rw,sync,no_root_squash,no_subtree_check,fsid=1)
/srv/squash 127.0.0.1(rw,sync,root_squash,no_subtree_check,fsid=2)
/srv/small 127.0.0.1(rw,sync,no_root_squash,no_subtree_check,fsid=3)
EXPORTS
    systemctl restart nfs-server
    mkdir -p /srv/smb
    useradd -M lab
    chown lab /srv/smb
    printf 'p,w d\np,w d\n' | smbpasswd -s -a lab
    printf '[lab]\npath = /srv/smb\nread only = no\n' >>/etc/samba/smb.conf
    systemctl restart smbd
    cat >marks/storages.yaml <<'YAML'
# The lab's storages.
storages:
- {name: open, type: nfs, data: {server: 127.0.0.1, path: /srv/open}, failAfterSeconds: 30}
- {name: v3, type: nfs, data: {server: 127.0.0.1, path: /srv/open}, mountOptions: ['nfsvers=3,nolock']}
- {name: squash, type: nfs, data: {server: 127.0.0.1, path: /srv/squash}, share: false}
- {name: small, type: nfs, data: {server: 127.0.0.1, path: /srv/small}}
- {name: read, type: nfs, data: {server: 127.0.0.1, path: /srv/open}, readOnly: true}
- {name: nothing, type: nfs, data: {server: 127.0.0.1, path: /srv/nothing}}
- {name: gone, type: nfs, data: {server: 192.0.2.1, path: /srv/gone}}
- {name: plain, type: hostPath, data: {path: /srv/plain}, share: false}
- name: lab
  type: samba
  data: {address: //127.0.0.1/lab, username: lab, password: 'p,w d'}
- {name: locked, type: samba, data: {address: //127.0.0.1/lab, username: lab, password: wrong}}
YAML
    wait_for "the agent" 60 muster node show
    muster image import busybox.tar
    muster storage apply marks/storages.yaml
    muster group set default --storage open,v3,squash,small,read,nothing,gone,plain,lab,locked
    # No password lies anywhere in clear.
    muster storage show | grep -q 'sealed:'
    not grep -rqs 'p,w d' /var/lib/muster
}

step_storages_nfs() {
    begin=$(now)
    works nfs 'open' 'cat /mnt/open/data; echo result >/mnt/open/result; grep " /mnt/open " /proc/mounts'
    detail "first job with NFS $((($(now) - begin) / 100)) s"
    [ "$(cat /srv/open/result)" = result ]
    logged nfs 'from the server'
    logged nfs 'nosuid,nodev'
    # The host's own programs do not see it.
    not grep -q ' nfs4 ' /proc/mounts
    [ "$(mounted_storages)" = 1 ]
    works nfs3 '{name: v3, mountPath: /data, subPath: runs/one}' 'pwd; echo three >/data/file; grep " /data " /proc/mounts'
    [ "$(cat /srv/open/runs/one/file)" = three ]
    logged nfs3 'vers=3'
    works reads '{name: read}' 'cat /mnt/read/data; ! touch /mnt/read/data'
    works chosen '{name: open, readOnly: true}' '! touch /mnt/open/data'
    works host 'plain' 'test ! -e /mnt/plain/data; echo mine >/mnt/plain/file'
    [ "$(cat /srv/plain/admin/file)" = mine ]
}

step_storages_squash() {
    # root is nobody there, and may not write to a directory of somebody else.
    works squash 'squash' 'touch /mnt/squash/file 2>/dev/null && exit 1; id -u'
    storage_job nodir '{name: squash, subPath: new}' 'true'
    wait_for "the reason" 60 was_told nodir 'make the directory there and give it to its user'
    muster job stop nodir
    chmod 1777 /srv/squash/admin
    works nobody 'squash' 'echo squashed >/mnt/squash/file'
    [ "$(stat -c %U /srv/squash/admin/file)" = nobody ]
}

step_storages_samba() {
    works smb 'lab' 'echo from a task >/mnt/lab/file; cat /mnt/lab/file; grep " /mnt/lab " /proc/mounts'
    [ "$(cat /srv/smb/file)" = 'from a task' ]
    storage_job locked 'locked' 'true'
    wait_for "the reason" 60 was_told locked 'storage locked:.*Permission denied'
    muster job stop locked
    not logged smb 'p,w'
}

# Files without a job, over NFS and Samba.
step_storages_files() {
    mkdir -p marks/tree/deep
    echo one >marks/tree/one
    ln -sf one marks/tree/link
    dd if=/dev/urandom of=marks/tree/deep/large bs=1M count=24 status=none
    for storage in open v3 lab; do
        muster storage put marks/tree "$storage:"
        rm -rf "marks/back-$storage"
        muster storage get "$storage:tree" "marks/back-$storage"
        cmp marks/tree/deep/large "marks/back-$storage/deep/large"
        [ "$(cat "marks/back-$storage/one")" = one ]
        muster storage ls "$storage:tree/deep" -o json | jq -e '.entries[0].name == "large"'
        muster storage probe "$storage" -o json | jq -e '.canWrite and .problem == null'
    done
    cmp marks/tree/deep/large /srv/open/tree/deep/large
    cmp marks/tree/deep/large /srv/smb/tree/deep/large
    [ -z "$(find /srv/open /srv/smb -name '.muster-part-*')" ]
    # What may not be had.
    not muster storage put marks/tree/one read:one
    not muster storage get nothing:one -
    muster storage probe locked | grep -q 'Permission denied'
    # A disk that is full is left as it was.
    not muster storage put marks/tree/deep/large small:large 2>marks/full.err
    grep -q 'No space left' marks/full.err
    [ -z "$(ls -A /srv/small)" ]
    # A transfer that broke off goes on. Until it is whole, the file is not there under its name.
    dd if=/dev/urandom of=marks/big bs=1M count=512 status=none
    timeout 1 muster storage put marks/big open:big && return 1
    [ ! -e /srv/open/big ]
    muster storage put marks/big open:big
    cmp marks/big /srv/open/big
    # A server that is away ends a request in time, and the agent goes on.
    server_away
    trap server_back EXIT
    begin=$(now)
    not timeout 120 muster storage put marks/big open:away
    detail "a put to a server that is away ends after $((($(now) - begin) / 100)) s"
    timeout 5 muster node show >/dev/null
    server_back
    trap - EXIT
    wait_for "the server" 120 muster storage ls open:
    rm -f /srv/open/big marks/big
}

step_storages_refused() {
    storage_job nothing 'nothing' 'true'
    wait_for "the reason" 60 was_told nothing 'storage nothing:.*access denied by server'
    muster job show nothing | grep -q 219
    muster job stop nothing
    begin=$(now)
    storage_job gone 'gone' 'true'
    wait_for "the reason" 120 was_told gone 'storage gone:'
    detail "a server that is not there is told after $((($(now) - begin) / 100)) s"
    muster job stop gone
}

step_storages_full() {
    storage_job full 'small' 'dd if=/dev/zero of=/mnt/small/big bs=1M count=64'
    wait_for "the end" 60 has_ended full
    is full FAILED
    was_told full 'No space left on device'
    rm -f /srv/small/big
}

# A server that does not answer: its packets are dropped.
server_away() {
    nft -f - <<'NFT'
table inet trial {
    chain in { type filter hook input priority 0; iif lo tcp dport { 2049, 445 } drop; }
}
NFT
}
server_back() { nft delete table inet trial; }
lost_storage() { journalctl -u muster -b --no-pager -o cat | grep 'has lost a storage' | grep -q "$1"; }

step_storages_away() {
    writes='i=0; while true; do i=$((i + 1)); echo "tick $i" >>/mnt/open/ticks; echo "tick $i"; sleep 1; done'
    rm -f /srv/open/ticks
    storage_job patient '{name: v3}' "$(echo "$writes" | sed 's|/mnt/open|/mnt/v3|')"
    storage_job writer 'open' "$writes"
    wait_for "the first tick" 60 logged writer 'tick 2'
    wait_for "the first tick" 60 logged patient 'tick 2'
    works before 'plain' true
    server_away
    trap server_back EXIT
    begin=$(now)
    # Neither the host nor the agent nor other tasks wait for it.
    timeout 5 df >/dev/null
    timeout 5 muster node show >/dev/null
    works other 'plain' true
    detail "another job beside it $((($(now) - begin) / 100)) s"
    wait_for "the verdict" 120 lost_storage 'storage open has not answered for'
    wait_for "the end of its task" 60 was_told writer '219 (ContainerStorageUnreachable)'
    detail "its task has failed after $((($(now) - begin) / 100)) s"
    timeout 5 df >/dev/null
    # One that may wait longer goes on when the server is back, and so does the retry of the other.
    server_back
    trap - EXIT
    before=$(muster job logs patient | grep -c tick)
    wait_for "the next tick" 120 more_ticks patient "$before"
    wait_for "the retry" 180 is writer RUNNING
    muster job logs patient | grep tick | sort | uniq -d | wc -l | grep -qx 0
    muster job stop patient
    muster job stop writer
    wait_for "the end" 60 has_ended patient
    wait_for "the end" 60 has_ended writer
}

step_storages_restarted() {
    storage_job restarts 'open' 'while true; do date >>/mnt/open/dates; echo tick; sleep 1; done'
    wait_for "the first tick" 60 logged restarts tick
    # The agent goes and comes while a task uses a storage; the server too.
    systemctl restart muster
    wait_for "the agent" 60 muster node show
    goes=$(muster job logs restarts | grep -c tick)
    wait_for "more" 60 more_ticks restarts "$goes"
    systemctl restart nfs-server
    goes=$(muster job logs restarts | grep -c tick)
    wait_for "more after the server's restart" 150 more_ticks restarts "$goes"
    works again 'open' 'cat /mnt/open/data'
    muster job stop restarts
    wait_for "the end" 60 has_ended restarts
}

step_storages_idle() {
    [ "$(mounted_storages)" -ge 1 ]
    begin=$(now)
    wait_for "nothing to be mounted" 400 no_storages
    detail "unmounted $((($(now) - begin) / 100)) s after the last use"
    not grep -q /var/lib/muster/storages /proc/mounts
    [ -z "$(ls /var/lib/muster/storages/mounts)" ]
}
no_storages() { not in_storages true; }
