#!/usr/bin/env bash
# tools/gpu_check.sh [OPTION...]: builds Tally against PyTorch with CUDA, runs all tests that need a
# GPU, and measures the kernels and trainings of docs/gpu.md. Prints a summary at the end, which is
# also in check/summary.txt of the folder of the build. Ends with 1 if a part failed, and with 2 if
# the build failed or an option is wrong. Needs a machine with a GPU, nvcc and an installed torch;
# it installs nothing.
#
#   --torch FOLDER   the folder of torch's __init__.py; default: that of --python
#   --python PROGRAM a python with torch, also for the peers in benchmarks; default: python3
#   --build FOLDER   default: build/gpu
#   --only PARTS     of build, tests, kernels, train, share, ways, sizes, mixed, text, with commas
#                    between them; default: all that have their data
#   --pictures DATA  for mixed, which trains lenet on a GPU and CPUs: MNIST, in a folder or by name
#   --text FILE      for text, which trains gpt with nanoGPT's settings: tiny Shakespeare
#   --quick          fewer steps in the benchmarks of train and share, whose contenders then take
#                    longer to start than to train
#
# ways trains gpt with workers that sum in GPU memory, by NCCL, and in both ways, and compares the
# losses. sizes trains a few steps of resnet50 with ImageNet's pictures and classes and of GPT-2
# small, in bfloat16 and with made data.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  echo "gpu_check: $1" >&2
  exit 2
}

torch=
python=python3
build=build/gpu
parts=(build tests kernels train share ways sizes mixed text)
only=
pictures=
text=
rounds=3
steps=50
while [ $# -gt 0 ]; do
  case $1 in
    --torch | --python | --build | --only | --pictures | --text)
      [ -n "${2-}" ] || die "$1 needs a value; --help lists the options"
      declare "${1#--}=$2"
      shift 2
      ;;
    --quick) rounds=1 && steps=20 && shift ;;
    -h | --help)
      sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"
      exit 0
      ;;
    *) die "unknown option $1; --help lists the options" ;;
  esac
done

# selected PART: whether --only names it, or there is no --only.
selected() {
  [ -z "$only" ] || [[ ,$only, == *,$1,* ]]
}
IFS=, read -ra names <<< "$only"
for name in "${names[@]}"; do
  known=
  for part in "${parts[@]}"; do [ "$name" != "$part" ] || known=1; done
  [ -n "$known" ] || die "--only $only: no part '$name'; there are ${parts[*]}"
done
not_run=
# needs PART OPTION VALUE: a part without its data does not run; it is an error if --only names it.
needs() {
  [ -z "$3" ] || return 0
  [ -z "$only" ] || ! selected "$1" || die "--only $1: needs $2"
  ! selected "$1" || not_run+="${not_run:+, }$1 ($2)"
}
needs mixed --pictures "$pictures"
needs text --text "$text"

program=$(command -v "$python") || die "no $python in PATH; --python names one"
python=$program

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
  selected "${name%%-*}" || return 0
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

# A folder like ImageNet's: 1000 classes with one picture of 256 x 256 each, and a test part.
make_pictures() {
  "$python" - "$1" <<'END'
import os
import struct
import sys
import zlib

def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))

for part, count in [("train", 1000), ("test", 10)]:
    for number in range(count):
        folder = os.path.join(sys.argv[1], part, f"{number:03}")
        os.makedirs(folder, exist_ok=True)
        row = b"\0" + bytes((number * 7 + 3 * i) % 256 for i in range(768))
        with open(os.path.join(folder, "1.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" +
                       chunk(b"IHDR", struct.pack(">IIBBBBB", 256, 256, 8, 2, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(row * 256)) + chunk(b"IEND", b""))
END
}
few_steps() {
  "$build/tally" train "$@" --device cuda --workers 1 --precision bfloat16 --steps 12 \
    --eval-every never --no-progress
}
resnet50() {
  make_pictures "$logs/pictures" &&
    few_steps resnet50 --data "$logs/pictures" --batch 64 --rate 0.01 --loader-threads 8
}
# The symbols of GPT-2 are byte pairs, which the recipe does not read: this one has characters.
gpt2() {
  cat docs/*.md > "$logs/documents.txt" &&
    few_steps gpt --data "$logs/documents.txt" --layers 12 --heads 12 --width 768 --context 1024 \
      --batch 8 --rate 6e-4 --sample-length 0
}

# losses NUMBER WORKERS OPTION...: appends two results of the same training to ways.jsonl. The
# workers share the GPU; in the second training NCCL takes them for NUMBER on each host.
losses() {
  local here=$1 workers=$2
  shift 2
  local common=(train gpt --data "$logs/documents.txt" --device cuda --layers 2 --heads 2 --width 64
    --context 64 --batch 8 --steps 60 --sample-length 0 --no-progress
    --json "$logs/ways.jsonl" "$@")
  "$build/tally" "${common[@]}" --workers "$workers" &&
    NCCL_DEBUG=VERSION "$build/tally" run -n "$workers" -- sh -c \
      "NCCL_HOSTID=host\$((TALLY_RANK / $here))"' exec "$@"' sh "$build/tally" "${common[@]}" |
    tee "$logs/nccl.log" && grep -q 'NCCL version' "$logs/nccl.log"
}
ways() {
  local -x CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
  CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}  # one, which the workers share
  cat docs/*.md > "$logs/documents.txt" && rm -f "$logs/ways.jsonl" &&
    losses 1 2 && losses 1 2 --shard-state && losses 1 2 --plan codec=int8 && losses 2 3 &&
    "$python" - "$logs/ways.jsonl" <<'END'
import json
import sys

with open(sys.argv[1]) as lines:
    losses = [json.loads(line)["test_loss"] for line in lines]
pairs = list(zip(losses[::2], losses[1::2], strict=True))
print("ways: losses by GPU memory and by NCCL:", pairs)
sys.exit(any(abs(one - other) > 1e-3 * one for one, other in pairs) or len(pairs) != 4)
END
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
part ways ways
part sizes-resnet50 resnet50
part sizes-gpt2 gpt2
[ -z "$pictures" ] || part mixed mixed
if [ -n "$text" ]; then
  part text shakespeare
  part text-graphs shakespeare --graphs
fi

version=$("$python" -c 'import torch; print(torch.__version__)') || version=unknown
summarize() {
  printf '\n== summary: %s, torch %s\n' "$gpu" "$version"
  sed -s -n '/^\(training\|kernels\|completed\) /,$p' "${written[@]}"
  printf '%s\n' "${summary[@]}"
  [ -z "$not_run" ] || echo "not run: $not_run"
  [ "$failed" -ne 0 ] || echo "all parts passed in $SECONDS s"
}
summarize | tee "$logs/summary.txt"
[ "$failed" -eq 0 ]
