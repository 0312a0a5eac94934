#!/usr/bin/env python3
"""compile.py BUILD FMT TARGET...: compiles the sources of each TARGET in the folder BUILD.

The compiler reads the sources, but writes no object: the commands are those of BUILD's
compile_commands.json with -fsyntax-only. Each file must include libtorch, and FMT/format.h. The
exit code is 1 if one does not, or is not compiled.
"""
import json
import os
import re
import shlex
import subprocess
import sys


def commands_of(build, target):
    """Yields the compile commands of a target: the file, the folder, and the words."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        words = shlex.split(entry["command"])
        if f"/{target}.dir/" in f"/{words[words.index('-o') + 1]}":
            yield entry["file"], entry["directory"], words


def sources_of(file):
    """The sources that CMake has joined in a file of a unity build."""
    with open(file, encoding="utf-8") as text:
        return re.findall(r'^#include "(.*\.cc)"$', text.read(), re.MULTILINE) or [file]


def compile_target(build, target, fmt):
    """Returns the number of sources; ends the program with what is wrong."""
    count = 0
    dependencies = os.path.join(build, f"{target}.d")
    for file, folder, words in commands_of(build, target):
        done = subprocess.run([*words, "-fsyntax-only", "-MD", "-MF", dependencies], cwd=folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{file} of {target} is not compiled:\n{done.stderr}")
        with open(dependencies, encoding="utf-8") as text:
            headers = set(text.read().replace("\\\n", " ").split())
        if not any(header.endswith("/torch/all.h") for header in headers):
            sys.exit(f"{file} of {target} is without libtorch")
        if f"{fmt}/format.h" not in headers:
            sys.exit(f"{file} of {target} is without {fmt}/format.h")
        count += len(sources_of(file))
    if count == 0:
        sys.exit(f"{build} has no source of {target}")
    return count


def main():
    build, fmt, *targets = sys.argv[1:]
    for target in targets:
        print(f"{target}: {compile_target(build, target, fmt)} sources with {fmt}/format.h")


if __name__ == "__main__":
    main()
