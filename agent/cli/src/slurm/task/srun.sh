#!/bin/sh
# srun inside a job of Muster: runs the command on this node, once per task that belongs here.
# Each node of the job runs the whole script, so that every node starts its own share.
refuse() {
    echo "srun: error: $*" >&2
    exit 2
}
whole() {
    case $2 in
        '' | *[!0-9]* | 0) refuse "$1 $2: write a number of at least 1" ;;
    esac
}

nodes=$SLURM_NNODES tasks='' per_node=''
while [ $# -gt 0 ]; do
    value='' has=''
    case $1 in
        --) shift && break ;;
        --*=*) name=${1%%=*} value=${1#*=} has=1 ;;
        --*) name=$1 ;;
        -?*)
            value=${1#-?} name=${1%"$value"}
            [ -z "$value" ] || has=1
            ;;
        *) break ;;
    esac
    shift
    case $name in
        -n | --ntasks | -N | --nodes | --ntasks-per-node | -c | --cpus-per-task | -D | --chdir | -J | --job-name | \
            --export | --mem | --mem-per-cpu | --mem-per-gpu | --gres | -G | --gpus | --gpus-per-node | \
            --gpus-per-task | --cpu-bind | --mem-bind | --gpu-bind | -t | --time)
            if [ -z "$has" ]; then
                [ $# -gt 0 ] || refuse "$name needs a value"
                value=$1
                shift
            fi
            ;;
    esac
    case $name in
        -n | --ntasks) whole "$name" "$value" && tasks=$value ;;
        -N | --nodes) whole "$name" "$value" && nodes=$value ;;
        --ntasks-per-node) whole "$name" "$value" && per_node=$value ;;
        -c | --cpus-per-task) whole "$name" "$value" && export SLURM_CPUS_PER_TASK="$value" ;;
        -D | --chdir) cd "$value" || exit 1 ;;
        --export) [ "$value" = ALL ] || refuse "--export=$value: only ALL is supported inside a job; use \`env\`" ;;
        # What they ask for is so anyway.
        -J | --job-name | -u | --unbuffered | --overlap | --exact | -K | --kill-on-bad-exit) ;;
        --exclusive | --mem | --mem-per-cpu | --mem-per-gpu | --gres | -G | --gpus | --gpus-per-node | \
            --gpus-per-task | --cpu-bind | --mem-bind | --gpu-bind | -t | --time)
            echo "srun: warning: $name has no effect inside a job: all tasks of a node share its container" >&2
            ;;
        *) refuse "$name is not supported inside a job of Muster" ;;
    esac
done
[ $# -gt 0 ] || refuse "no command is given"
[ "$nodes" -le "$SLURM_NNODES" ] || refuse "the job has $SLURM_NNODES nodes, not $nodes"

if [ -z "$tasks" ]; then
    if [ -n "$per_node" ]; then
        tasks=$((nodes * per_node))
    elif [ "$nodes" = "$SLURM_NNODES" ]; then
        tasks=$SLURM_NTASKS
    else
        tasks=$((nodes * (SLURM_NTASKS / SLURM_NNODES)))
    fi
fi
[ "$tasks" -ge "$nodes" ] || nodes=$tasks
[ "$SLURM_NODEID" -lt "$nodes" ] || exit 0

share=$((tasks / nodes)) more=$((tasks % nodes))
if [ "$SLURM_NODEID" -lt "$more" ]; then
    first=$((SLURM_NODEID * share + SLURM_NODEID)) share=$((share + 1))
else
    first=$((SLURM_NODEID * share + more))
fi
export SLURM_NTASKS="$tasks" SLURM_NPROCS="$tasks" SLURM_STEP_NUM_TASKS="$tasks" SLURM_STEP_NUM_NODES="$nodes"
if [ "$share" = 1 ]; then
    export SLURM_PROCID="$first" SLURM_LOCALID=0
    exec "$@"
fi
local=0 pids=''
while [ "$local" -lt "$share" ]; do
    SLURM_PROCID=$((first + local)) SLURM_LOCALID=$local "$@" &
    pids="$pids $!"
    local=$((local + 1))
done
worst=0
for pid in $pids; do
    wait "$pid"
    status=$?
    [ "$status" -le "$worst" ] || worst=$status
done
exit "$worst"
