#!/bin/sh
# The trial in the virtual machine of deploy/vm.sh, started at each boot. What is left to do stands in
# /opt/trial/steps, so that a reboot or a power cut goes on where it was. What is told begins with "TRIAL: ".
#
# The last line of a boot says to vm.sh what follows: END with an exit code, REBOOT, or POWER for a power cut.
set -u
cd /opt/trial || exit 1
. ./steps.sh
. ./compare.sh
. ./docs.sh
. ./hardware.sh
. ./storages.sh
. ./training.sh
mkdir -p marks

tell() { printf 'TRIAL: %s\n' "$*"; }
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }

# wait_for WHAT SECONDS COMMAND...: until the command succeeds.
wait_for() {
    what=$1
    until=$(($(now) + $2 * 100))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$(now)" -ge "$until" ]; then
            echo "waited in vain for $what"
            return 1
        fi
        sleep 0.2
    done
}

# run_step NAME: the function step_NAME, with its time. Its output is shown where it fails.
run_step() {
    began=$(now)
    (set -e; "step_$1") >"marks/$1.log" 2>&1 </dev/null
    code=$?
    took=$(($(now) - began))
    detail=$(sed -n 's/^detail: //p' "marks/$1.log" | tr '\n' ';' | sed 's/;$//; s/;/; /g')
    took=$((took / 100)).$((took % 100 / 10))
    if [ "$code" -eq 0 ]; then
        tell "ok      $1, $took s${detail:+: $detail}"
    else
        tell "FAILED  $1, $took s${detail:+: $detail}"
        tail -n 40 "marks/$1.log" | sed 's/^/TRIAL:         /'
        journalctl -u muster -b --no-pager -n 10 -o cat | cut -c1-200 | sed 's/^/TRIAL:         muster: /'
        touch marks/failed
    fi
}

# Steps in two parts: the machine goes down between them.
continue_after() {
    part=$(cat marks/next 2>/dev/null) || return 0
    rm -f marks/next
    run_step "$part"
}

# A second machine has steps of its own.
if grep -q trial=peer /proc/cmdline && [ -e steps-peer ]; then mv steps-peer steps; fi
tell "boot of $(uname -r), systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), $(now | sed 's/..$//') s"
continue_after
while read -r step rest <steps && [ -n "$step" ]; do
    echo "$rest" >steps
    run_step "$step"
    if [ -s marks/down ]; then
        how=$(cat marks/down)
        rm -f marks/down
        sync
        echo "TRIAL $how"
        # A power cut comes from outside, in the middle of what the step has left running.
        if [ "$how" = REBOOT ]; then systemctl reboot; else sleep 300; fi
        exit 0
    fi
done
code=0
[ ! -e marks/failed ] || code=1
echo "TRIAL END $code"
systemctl poweroff
