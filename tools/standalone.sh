#!/usr/bin/env bash
# tools/standalone.sh: compiles every file alone, without generating code, so that no file needs
# the includes of its neighbours in a unity batch. It also reports names that shadow others: in a
# batch, -Wshadow would warn of names of neighbouring files. It leaves out generated files, and the
# files that are compiled with libtorch's precompiled header.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset standalone >/dev/null
python3 - <<'PY'
import concurrent.futures, json, os, re, shlex, subprocess, sys, tempfile

with open("build/standalone/compile_commands.json") as database:
    todo = {c["file"]: c for c in json.load(database)
            if not c["file"].startswith(f"{os.getcwd()}/build/")
            and "tally_torch_pch" not in c["command"]}

def run(entry, file, *options):
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if "clang" in word):]
    words = re.sub(r" -o \S+| -c \S+", " ", shlex.join(words))
    words += f" -Wno-everything -Werror=shadow -fPIC {shlex.join(options)} {shlex.quote(file)}"
    return subprocess.run(words, shell=True, cwd=entry["directory"], capture_output=True, text=True)

# GoogleTest's headers take half of the time that a test takes to compile, so they are precompiled.
# They then come first and would hide what the test's own header lacks: this is done only for tests
# whose own header is also the first include of another file.
texts = {file: open(file).read() for file in todo}
def first_header(text):
    found = re.search(r'^#include "(.*)"', text, re.M)
    return found and found[1]
checked_headers = {first_header(text) for text in texts.values()
                   if not re.search(r"#include <g(test|mock)/", text)}

folder = tempfile.TemporaryDirectory()
precompiled = {}  # by the line that includes it; gmock includes gtest
a_test = next((entry for file, entry in todo.items() if file.endswith("_test.cc")), None)
for name in ("gmock", "gtest") if a_test else ():
    source = os.path.join(folder.name, f"{name}.h")
    with open(source, "w") as out:
        out.write(f"#include <{name}/{name}.h>\n")
    result = run(a_test, source, "-x", "c++-header", "-o", f"{source}.pch")
    if result.returncode != 0:
        sys.exit(f"standalone: {name} does not compile\n{result.stderr}")
    precompiled[f"#include <{name}/{name}.h>"] = f"{source}.pch"

def check(entry):
    file = entry["file"]
    text = texts[file]
    header = next((path for line, path in precompiled.items() if line in text), None)
    if header and first_header(text) in checked_headers:
        result = run(entry, file, "-fsyntax-only", "-include-pch", header)
        if result.returncode == 0:
            return file, result
        # The macros of the command line may be others than those of the header.
    return file, run(entry, file, "-fsyntax-only")

failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for file, result in pool.map(check, todo.values()):
        if result.returncode != 0:
            failed += 1
            print(f"standalone: {os.path.relpath(file)}\n{result.stderr}", file=sys.stderr)
print(f"standalone: {len(todo)} files compiled alone, {failed} failed")
sys.exit(1 if failed else 0)
PY
