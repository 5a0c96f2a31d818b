#!/bin/sh
# Table 1 of the Pdprox paper: a fifth of the labels is flipped, and only the 200 largest losses count (eq. (19)).
#
#     sh examples/noisy_labels.sh TRAIN TEST [SEED]
#
# TRAIN and TEST are in LIBSVM's format with labels -1 and 1, plain or .bz2, as a9a and a9a.t of LIBSVM's site are. The
# answer is the mean of the iterates, stopped at a mean gap of 1e-3. It stands beside that of the plain hinge.
set -eu
train=$1 test=$2 seed=${3:-1}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

bzip2 -dcf "$train" | awk -v seed="$seed" 'BEGIN { srand(seed) } rand() < 0.2 { $1 = -$1 } { print }' > "$folder/noisy.txt"
streammargin-data convert -q "$folder/noisy.txt" "$folder/noisy.h5"

streammargin train -q "$folder/noisy.h5" -o "$folder/top.npz" -c 1 --bias 0 \
    --loss hinge:top=200 --solver pdprox:dual,average --tol absolute:1e-3
streammargin train -q "$folder/noisy.h5" -o "$folder/hinge.npz" -c 1 --bias 0

streammargin-data convert -q "$test" "$folder/test.h5" --like "$folder/top.npz"
for model in top hinge; do
    echo "$model: $(streammargin evaluate "$folder/$model.npz" "$folder/test.h5" | head -n 1)"
done
