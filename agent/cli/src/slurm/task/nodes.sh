muster_name() {
    muster_rest=$MUSTER_MACHINES,
    while [ -n "$muster_rest" ]; do
        muster_machine=${muster_rest%%,*} muster_rest=${muster_rest#*,}
        if [ "${muster_machine#*=}" = "$1" ]; then
            echo "${muster_machine%%=*}"
            return
        fi
    done
    echo "$1"
}
muster_nodes=''
muster_index=0
while [ "$muster_index" -lt "$SLURM_NNODES" ]; do
    eval "muster_address=\$PAI_HOST_IP_main_$muster_index"
    muster_nodes=$muster_nodes,$(muster_name "$muster_address")
    muster_index=$((muster_index + 1))
done
export SLURM_JOB_NODELIST="${muster_nodes#,}" SLURM_NODELIST="${muster_nodes#,}"
