#!/bin/sh
# scontrol inside a job of Muster: names the nodes of the job, one a line.
if [ "${1-}" = show ]; then
    case ${2-} in
        hostnames | hostname)
            echo "${3-$SLURM_JOB_NODELIST}" | tr , '\n'
            exit
            ;;
    esac
fi
echo "scontrol: error: inside a job of Muster there is only: scontrol show hostnames [LIST]" >&2
exit 2
