#!/usr/bin/env bash
#SBATCH --requeue
#SBATCH --signal=TERM@60
# A job for Slurm that asks to be queued again until its training is done:
#     sbatch examples/requeue.sh train.h5 -o model.npz
# A minute before the time is over the training gets SIGTERM, writes a checkpoint and ends with the exit code 75.
# Other schedulers: LAUNCH starts the training ("" for nothing before it), REQUEUE is what asks for the next turn.
${LAUNCH-srun} streammargin train "$@" --checkpoint "${CHECKPOINT:-checkpoint}"
code=$?
[ $code -ne 75 ] || ${REQUEUE-scontrol requeue "$SLURM_JOB_ID"}
exit $code
