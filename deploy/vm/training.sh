# The steps `training` of deploy/vm.sh, on two machines: a training job reads its data from NFS, gives way to a more
# important job, and goes on elsewhere from its checkpoint; TensorBoard is looked at in a browser of the host, through
# the machine that does not run it. Sourced by trial.sh.
# shellcheck shell=sh

# own_network N: this machine's addresses on the network of both machines and towards the host.
own_network() {
    for device in /sys/class/net/*; do
        case $(cat "$device/address") in
            52:54:00:00:07:*) ip address add "10.77.0.$1/24" dev "${device##*/}"; ip link set "${device##*/}" up ;;
            52:54:00:00:08:*) ip address add 10.0.2.15/24 dev "${device##*/}"; ip link set "${device##*/}" up ;;
        esac
    done
}

# prepare_machine N: Muster, with two devices that are made up, and the image.
prepare_machine() {
    own_network "$1"
    hostname "node$1"
    echo "node$1" >/etc/hostname
    own_archives
    apt-get install -y --no-install-recommends muster
    sed -i 's/^# simulate = .*/simulate = "2xV100"/; s/^# cpu_overcommit = .*/cpu_overcommit = 8.0/
        s/^# memory_overcommit = .*/memory_overcommit = 4.0/' /etc/muster/agent.toml
    sed -i "s/^\[node\].*/&\nname = \"node$1\"\nadvertise = \"10.77.0.$1\"/" /etc/muster/agent.toml
    systemctl restart muster
    wait_for "the agent" 60 muster node show
    muster image import checkpoint.tar
}

# The second machine gets its token from the export, as a person would carry it over.
step_peer_joins() {
    prepare_machine 2
    mkdir -p /run/lab
    wait_for "the token" 600 joinable
    # shellcheck disable=SC2046 # the address and the token
    muster cluster join $(cat /run/lab/join)
    umount /run/lab
    sleep 1d
}
joinable() {
    mountpoint -q /run/lab || mount -t nfs4 -o soft,timeo=50 10.77.0.1:/srv/lab /run/lab
    [ -s /run/lab/join ]
}

step_training_install() {
    mkdir -p /srv/lab /srv/data /srv/runs
    # y = 3 x + 5, with a little that is not on the line.
    awk 'BEGIN { print "x,y"; for (i = 0; i < 200; i++) print i / 100 "," 3 * i / 100 + 5 + (i % 7 - 3) / 50 }' \
        >/srv/data/samples.csv
    cat >/etc/exports <<'EXPORTS'
/srv/lab 10.77.0.0/24(ro,sync,no_subtree_check,fsid=1)
/srv/data 10.77.0.0/24(ro,sync,no_subtree_check,fsid=2)
/srv/runs 10.77.0.0/24(rw,sync,no_root_squash,no_subtree_check,fsid=3)
EXPORTS
    prepare_machine 1
    systemctl restart nfs-server
    muster cluster init --name lab
    printf 'tasks: {stop_grace_ms: 10000}\n' >marks/policy.yaml
    muster policy apply marks/policy.yaml
    cat >marks/storages.yaml <<'YAML'
storages:
- {name: data, type: nfs, data: {server: 10.77.0.1, path: /srv/data}, readOnly: true}
- {name: runs, type: nfs, data: {server: 10.77.0.1, path: /srv/runs}}
YAML
    muster storage apply marks/storages.yaml
    muster group set default --storage data,runs
    token=$(muster cluster token create --uses 1 2>/dev/null)
    echo "10.77.0.1:7740 $token" >/srv/lab/join
    wait_for "the second machine" 600 is_a_member node2
    muster cluster members
}
is_a_member() { muster cluster members | grep -q "$1.*alive"; }

# takes NAME PRIORITY: a job that has both devices of a machine until it is stopped.
takes() {
    sed "s/^name: .*/name: $1/; s/oppo/$2/; s/gpu: 1/gpu: 2/; /^  storages:/,\$d; s/- OUT=.*/- sleep 1d/" \
        training.yaml >"marks/$1.yaml"
    muster job submit "marks/$1.yaml"
    wait_for "$1" 60 is "$1" RUNNING
}
step_of() { sed -n 's/.*"step": \([0-9]*\).*/\1/p' "/srv/runs/admin~train/checkpoint.json"; }
has_reached() { [ "$(step_of)" -ge "$1" ]; }
place_of() { muster job show "$1" -o json | jq -r '.roles[0].tasks[0].attempts[-1].node'; }
# other_of NODE: the machine's number that is not this one's.
other_of() { if [ "$1" = node1 ]; then echo 2; else echo 1; fi; }
secret() { cat /var/lib/muster/admin-password; }

# browse NODE PLACE STEPS: has the host's browser look at TensorBoard through that machine, and waits for its verdict.
# It is to show this many steps at least.
browse() {
    echo "TRIAL BROWSE $1 $2 $3 $(secret)" >/dev/ttyS0
    verdict=$(timeout 300 busybox nc -l -p 9000)
    detail "$verdict"
    case $verdict in ok*) ;; *) return 1 ;; esac
}

step_training_runs() {
    sed 's/^name: .*/name: train/; s/gpu: 1/gpu: 2/' training.yaml >marks/train.yaml
    begin=$(now)
    muster job submit marks/train.yaml
    wait_for "the first step" 300 logged train 'step 1:'
    detail "the first step $((($(now) - begin) / 100)) s after the job"
    place_of train >marks/first
    wait_for "a few steps" 120 has_reached 20
}

step_training_board() { browse "$(other_of "$(cat marks/first)")" /proxy/admin~train/tensorboard/ 20; }

step_training_preempted() {
    first=$(cat marks/first)
    takes beside prod
    [ "$(place_of beside)" != "$first" ]
    muster job submit - <<YAML
$(sed 's/^name: .*/name: urgent/' marks/beside.yaml)
YAML
    begin=$(now)
    wait_for "the job that is more important" 60 is urgent RUNNING
    detail "the more important job runs after $((($(now) - begin) / 100)) s"
    [ "$(place_of urgent)" = "$first" ]
    is train WAITING
    logged train 'stopped after step'
    step_of >marks/reached
}

step_training_continues() {
    first=$(cat marks/first)
    reached=$(cat marks/reached)
    begin=$(now)
    muster job stop beside
    wait_for "more steps" 180 has_reached "$((reached + 20))"
    detail "20 more steps $((($(now) - begin) / 100)) s after a machine was free"
    [ "$(place_of train)" != "$first" ]
    logged train "going on from the checkpoint of step $reached"
    [ "$(muster job show train -o json | jq '.summary.retries.accountable')" = 0 ]
    # All steps of both attempts, through the machine that does not run the job now.
    browse "$(other_of "$(place_of train)")" /proxy/admin~train/tensorboard/ "$((reached + 20))"
    muster job stop urgent
}

step_training_ends() {
    wait_for "the end" 600 has_ended train
    is train SUCCEEDED
    logged train 'y = '
    detail "$(muster job logs train | grep 'y = ' | tail -n 1)"
    [ "$(step_of)" = 599 ]
}
