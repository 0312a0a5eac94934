#!/usr/bin/env bash
# tools/gpu_check.sh [OPTION...]: builds Tally against PyTorch with CUDA, runs all tests that need a
# GPU, and measures the kernels and trainings of docs/gpu.md. Prints a summary at the end. Ends with
# 1 if a part failed, and with 2 if the build failed or an option is wrong. Needs a machine with a
# GPU, nvcc and an installed torch; it installs nothing.
#
#   --torch FOLDER   the folder of torch's __init__.py; default: that of --python
#   --python PROGRAM a python with torch, also for the peers in benchmarks; default: python3
#   --build FOLDER   default: build/gpu
#   --only PARTS     of build, tests, kernels, train, share, mixed, text; default: all that can run
#   --pictures DATA  for mixed, which trains lenet on a GPU and CPUs: MNIST, in a folder or by name
#   --text FILE      for text, which trains gpt with nanoGPT's settings: tiny Shakespeare
#   --quick          fewer steps in the benchmarks of train and share, whose contenders then take
#                    longer to start than to train
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  echo "gpu_check: $1" >&2
  exit 2
}

torch=
python=python3
build=build/gpu
only=build,tests,kernels,train,share,mixed,text
pictures=
text=
rounds=3
steps=50
while [ $# -gt 0 ]; do
  case $1 in
    --torch) torch=${2:?} && shift 2 ;;
    --python) python=${2:?} && shift 2 ;;
    --build) build=${2:?} && shift 2 ;;
    --only) only=${2:?} && shift 2 ;;
    --pictures) pictures=${2:?} && shift 2 ;;
    --text) text=${2:?} && shift 2 ;;
    --quick) rounds=1 && steps=20 && shift ;;
    -h | --help)
      sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"
      exit 0
      ;;
    *) die "unknown option $1; --help lists the options" ;;
  esac
done
python=$(command -v "$python") || die "no $python in PATH; --python names one"

command -v nvidia-smi >/dev/null || die "no nvidia-smi: install the NVIDIA driver"
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1) ||
  die "nvidia-smi finds no GPU"
if [ -z "$torch" ]; then
  torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))') ||
    die "$python has no torch: name another python with --python, or the folder with --torch"
fi
[ -e "$torch/lib/libtorch_cuda.so" ] || die "$torch has no lib/libtorch_cuda.so: torch without CUDA"

logs=$build/check
mkdir -p "$logs"
summary=()
written=()
failed=0
# part NAME COMMAND...: runs a part that --only names, and notes its outcome. Its output is also in
# NAME.log of the folder $logs.
part() {
  local name=$1 begin=$SECONDS outcome=ok
  shift
  [[ ,$only, == *,${name%%-*},* ]] || return 0
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$logs/$name.log" || outcome=FAILED
  [ "$outcome" = ok ] || failed=1
  written+=("$logs/$name.log")
  summary+=("$(printf '%-31s %-7s %5d s' "$name" "$outcome" $((SECONDS - begin)))")
}

compile() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTALLY_CUDA=ON \
    -DTALLY_TORCH_WHEEL="$torch" &&
    cmake --build "$build" --target tally tally-train tally-bench-train gpu_programs
}
bench() {
  "$build/tally" bench train --device cuda --python "$python" --rounds "$rounds" \
    --steps "$steps" --json "$logs/train.jsonl" "$@"
}
# The same samples in each step: by one GPU, and divided between it and two workers on the CPU.
mixed() {
  local common=(train lenet --data "$pictures" --epochs 4 --no-progress)
  "$build/tally" "${common[@]}" --device cuda --workers 1 --batch 192 &&
    "$build/tally" "${common[@]}" --device cuda,cpu,cpu --batch 64 &&
    "$build/tally" "${common[@]}" --device cuda,cpu,cpu --batch 64 --balance speed
}
shakespeare() {
  "$build/tally" train gpt --data "$text" --device cuda --workers 1 --precision bfloat16 \
    --layers 6 --heads 6 --width 384 --context 256 --dropout 0.2 --bias 0 --batch 64 \
    --steps 5000 --optimizer adamw:beta2=0.99,decay=0.1 --rate 1e-3 \
    --schedule cosine:min=0.1,warmup=100 --clip-norm 1 --eval-every 250 --sample-length 0 \
    --no-progress "$@"
}

part build compile
[ "$failed" -eq 0 ] || die "the build failed: $logs/build.log"
part tests ctest --test-dir "$build" -L '^gpu$' --output-on-failure --no-tests=error
part kernels "$build/bench/cuda/cuda_bench"
for precision in float32 bfloat16; do
  part "train-$precision" bench --model resnet18,gpt10m --ranks 1 --against torch,ddp --graphs \
    --precision "$precision"
  part "train-$precision-channels-last" bench --model resnet18 --ranks 1 --against torch,ddp \
    --graphs --precision "$precision" --channels-last
done
part share bench --model mlp --ranks 4 --against ddp
[ -z "$pictures" ] || part mixed mixed
if [ -n "$text" ]; then
  part text shakespeare
  part text-graphs shakespeare --graphs
fi

version=$("$python" -c 'import torch; print(torch.__version__)') || version=unknown
printf '\n== summary: %s, torch %s\n' "$gpu" "$version"
[ ${#summary[@]} -gt 0 ] ||
  die "--only $only: no such part, or mixed without --pictures, or text without --text"
sed -s -n '/^\(training\|kernels\|completed\) /,$p' "${written[@]}"
printf '%s\n' "${summary[@]}"
[ "$failed" -eq 0 ] || exit 1
echo "all parts passed in $SECONDS s"
