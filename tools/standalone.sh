#!/usr/bin/env bash
# tools/standalone.sh: compiles every file alone, without generating code, so that no file needs
# the includes of its neighbours in a unity batch. It leaves out the files that are compiled with
# libtorch's precompiled header, and those that `make fuzz` compiles alone.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset standalone >/dev/null
python3 - <<'PY'
import concurrent.futures, json, os, re, shlex, subprocess, sys

def commands(preset):
    path = f"build/{preset}/compile_commands.json"
    return json.load(open(path)) if os.path.exists(path) else []

# An object of a fuzzing build that exists was compiled alone.
compiled = {c["file"] for c in commands("fuzz")
            if os.path.exists(os.path.join(c["directory"], c["output"]))}
todo = {c["file"]: c for c in commands("standalone")
        if c["file"] not in compiled and "tally_torch_pch" not in c["command"]}

def check(entry):
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if "clang" in word):]
    words = re.sub(r" -o \S+| -c ", " ", shlex.join(words)) + " -fsyntax-only -w"
    result = subprocess.run(words, shell=True, cwd=entry["directory"], capture_output=True,
                            text=True)
    return entry["file"], result

failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for file, result in pool.map(check, todo.values()):
        if result.returncode != 0:
            failed += 1
            print(f"standalone: {os.path.relpath(file)}\n{result.stderr}", file=sys.stderr)
print(f"standalone: {len(todo)} files compiled alone, {failed} failed")
sys.exit(1 if failed else 0)
PY
