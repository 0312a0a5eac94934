#!/usr/bin/env python3
"""tools/check_documents.py [--root ROOT] BUILD: checks that the documents show what exists.

Every command of `tally` in a document, in a block or in backticks, must exist, and so must its
options and the values of options with a fixed set. The same holds for scripts in tools/ and their
options, targets of make, presets, programs of the build, tests that docs/failures.md names, paths
in backticks, and links. Tables have as many cells in each row as in their head. Python and Make
files in fences are not read.

BUILD is the folder of the build, with tally and its tests. Exit code 1 if something is wrong.
"""
import argparse
import fnmatch
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

from documents import commands, documents, make_listing

# Commands for Tally's own processes, which no help lists; and texts that only look like commands.
HIDDEN = ["host-agent", "startup-worker"]
NO_COMMANDS = ["tally rank 3", "tally shm / gloo", "tally shm / best MPI"]

TESTS = re.compile(r"\b(?:TYPED_TEST|TEST|TEST_F|TEST_P|TYPED_TEST_P)\(\s*(\w+),\s*(\w+)\)")
SUITES = re.compile(r"\bINSTANTIATE_\w+\(\s*(\w+)\s*,\s*(\w+)")


class Programs:
    """What the programs of the build, the tests and the tree have."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.tally = os.path.join(build, "tally")
        self.has_torch = os.path.exists(os.path.join(build, "tally-train"))
        self.helps = {}
        with open(os.path.join(root, "Makefile"), encoding="utf-8") as file:
            self.makefile = file.read()
        self.ninja = ""
        if os.path.exists(os.path.join(build, "build.ninja")):
            with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
                self.ninja = file.read()

    def help(self, words):
        """The help of a command of tally; None if there is no such command."""
        key = tuple(words)
        if key not in self.helps:
            done = subprocess.run([self.tally, *words, "--help"], capture_output=True, text=True,
                                  check=False)
            self.helps[key] = done.stdout if done.returncode == 0 else None
        return self.helps[key]

    def subcommands(self, words):
        text = self.help(words) or ""
        if "Subcommands:" not in text:
            return []
        section = text.split("Subcommands:")[1].split("\n\n")[0]
        return re.findall(r"^  (\S+)", section, re.MULTILINE)

    def options(self, words):
        """The options of a command: a dictionary of names and their fixed values, if any."""
        found = {}
        for line in (self.help(words) or "").splitlines():
            match = re.match(r"  (-\S+?)(?:\{[^}]*\})?(?: \[?=?(\S+?)\]?)?(?: |$)", line)
            if not match:
                continue
            values = match.group(2) or ""
            fixed = values.split("|") if re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", values) else []
            for name in match.group(1).split(","):
                found[name] = fixed
        return found


def tally_problems(words, programs):
    """What is wrong with the words after `tally`."""
    path, rest = [], list(words)
    if rest and rest[0] == "train":
        path.append(rest.pop(0))
        if not programs.has_torch:
            return []
        if rest and re.fullmatch(r"[a-z][a-z0-9]*", rest[0]):
            if programs.help(["train", rest[0]]) is None:
                return [f"there is no recipe {rest[0]}"]
            path.append(rest.pop(0))
        elif not rest or rest[0] != "RECIPE":
            rest = [word for word in rest if not word.startswith("-")]
    while rest and path[:1] != ["train"]:
        known = programs.subcommands(path)
        if not known or rest[0].startswith("-"):
            break
        if rest[0] in HIDDEN:
            return []
        if path == ["eval"] and rest[0] not in known:
            path.append(rest.pop(0))  # a trained model
            break
        if rest[0] not in known:
            return [f"there is no command `tally {' '.join([*path, rest[0]])}`"]
        path.append(rest.pop(0))
    if path[:2] in (["bench", "train"], ["bench", "compress"]) and not programs.has_torch:
        return []
    options = programs.options(path)
    if path == ["train"]:
        options = programs.options(["train", "lenet"])
    problems = []
    for i, word in enumerate(rest):
        if word == "--":
            problems += problems_of(rest[i + 1:], programs)
            break
        if not re.match(r"--?[a-z]", word):
            continue
        name, _, value = word.partition("=")
        if name not in options:
            problems.append(f"`tally {' '.join(path)}` has no option {name}")
            continue
        fixed = options[name]
        value = value or (rest[i + 1] if i + 1 < len(rest) else "")
        if fixed and value not in fixed and not value.isupper():
            problems.append(f"{name} {value}: not one of {', '.join(fixed)}")
    return problems


def script_problems(script, words, programs):
    """What is wrong with the words after a script in tools/, whose --help lists its options."""
    path = os.path.join(programs.root, script)
    if not os.path.exists(path):
        return [f"there is no {script}"]
    done = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    options = re.findall(r"^ +(--[a-z-]+)", done.stdout, re.MULTILINE)
    return [f"{script} has no option {word}" for word in words
            if word.startswith("-") and word not in options]


def problems_of(words, programs):
    """What is wrong with a command, given as words."""
    while words and re.match(r"[A-Z_]+=|until$", words[0]):
        words = words[1:]
    for i, word in enumerate(words):
        if word.endswith(";"):  # the rest of a loop of the shell
            words = [*words[:i], word[:-1]]
            break
    if not words:
        return []
    program = words[0]
    if program in ("tally", "build/release/tally"):
        return tally_problems(words[1:], programs)
    if program == "make":
        targets = [word for word in words[1:] if "=" not in word]
        names = [word.split("=")[0] for word in words[1:] if "=" in word]
        return ([f"the Makefile has no target {target}" for target in targets
                 if not re.search(rf"^[a-z -]*\b{re.escape(target)}\b[a-z -]*:", programs.makefile,
                                  re.MULTILINE)] +
                [f"the Makefile has no variable {name}" for name in names
                 if name not in programs.makefile])
    if program == "cmake" and "--preset" in words:
        with open(os.path.join(programs.root, "CMakePresets.json"), encoding="utf-8") as file:
            presets = [preset["name"] for preset in json.load(file)["configurePresets"]]
        preset = words[words.index("--preset") + 1]
        return [] if preset in presets else [f"there is no preset {preset}"]
    if program == "ninja":
        return [f"there is no target {word}" for word in words[3:]
                if f"build {word}:" not in programs.ninja]
    if program.startswith("tools/"):
        return script_problems(program, words[1:], programs)
    if program.startswith("build/"):
        target = program.split("/", 2)[2]
        pattern = rf"^build {re.escape(target)}[: ]"
        if "NAME" not in target and not re.search(pattern, programs.ninja, re.MULTILINE):
            return [f"the build has no program {target}"]
    return []


def command_findings(name, lines, programs):
    for command in commands(name, lines):
        try:
            words = shlex.split(command.text, comments=True)
        except ValueError as error:
            yield f"{command.place}: {command.text}: {error}"
            continue
        for problem in problems_of(words, programs):
            yield f"{command.place}: {command.text}: {problem}"
    fenced = False
    for number, line in enumerate(lines, 1):
        fenced = fenced != line.startswith("```")
        if fenced or line.startswith("    "):
            continue
        for text in re.findall(r"`((?:tally|make|build/release/tally|tools/[^`\s]+) [^`]+)`", line):
            if text in NO_COMMANDS:
                continue
            try:
                words = shlex.split(text)
            except ValueError:
                continue
            if any(word.endswith("...") for word in words):
                words = [word for word in words if not word.endswith("...")]
            for problem in problems_of(words, programs):
                yield f"{name}:{number}: `{text}`: {problem}"


def table_findings(name, lines):
    """Rows of a table have as many cells as its head."""
    width = None
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        if width is None:
            width = cells
        elif cells != width or not line.rstrip().endswith("|"):
            yield f"{name}:{number}: {cells} cells in a table of {width}"


def anchors_of(path):
    """The anchors of the headings of a document, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_findings(root, name, lines):
    for number, line in enumerate(lines, 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(root, os.path.dirname(name), path)) if path \
                else os.path.join(root, name)
            if not os.path.exists(file):
                yield f"{name}:{number}: link to {target}: no such file"
            elif anchor and file.endswith(".md") and anchor not in anchors_of(file):
                yield f"{name}:{number}: link to {target}: no such heading"


def expanded(pattern):
    """The paths of a pattern with {a,b}."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [path for word in match.group(1).split(",")
            for path in expanded(pattern[:match.start()] + word + pattern[match.end():])]


def path_findings(root, name, lines):
    """Paths of the tree in backticks exist."""
    tops = "include|src|adapters|recipes|apps|bench|examples|deploy|tests|docs|tools|cmake"
    for number, line in enumerate(lines, 1):
        for text in re.findall(rf"`((?:{tops})/[^`\s]*)`", line):
            if re.search(r"NAME|FAMILY|[<>]|\*\*", text):
                continue
            for path in expanded(text.rstrip("/")):
                if not glob.glob(os.path.join(root, path)):
                    yield f"{name}:{number}: `{text}`: no such path"


def tests_of(root, build):
    """The names of all tests as Suite.Name, and those of the test programs."""
    names, suites = set(), set()
    for top in ["src", "apps", "adapters", "recipes", "bench", "tests", "examples"]:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for file in files:
                if not file.endswith((".cc", ".h")):
                    continue
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    text = source.read()
                names.update(f"{suite}.{test}" for suite, test in TESTS.findall(text))
                suites.update(suite for _, suite in SUITES.findall(text))
    with tempfile.TemporaryDirectory() as folder:
        make_listing(folder, build)
        listed = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True,
                                capture_output=True, text=True).stdout
    programs = {test["name"].split(".")[0] for test in json.loads(listed)["tests"]}
    return names | {f"{suite}.*" for suite in suites}, programs


def test_findings(name, lines, names, programs):
    """The tests that a document names, as in `Suite.Name`, `Suite*` and `x_test`, exist."""
    for number, line in enumerate(lines, 1):
        for text in re.findall(r"`([A-Za-z_*]+(?:\.[A-Z*]\w*\*?\w*)?)`", line):
            pattern = text if "." in text else text + ".*"
            if re.fullmatch(r"\w+_test", text):
                if text not in programs:
                    yield f"{name}:{number}: there is no test program {text}"
            elif re.match(r"[A-Z]\w+(\.|\*$)", text) and not fnmatch.filter(names, pattern):
                yield f"{name}:{number}: there is no test {text}"


def findings(root, build):
    programs = Programs(root, build)
    names, test_programs = tests_of(root, build)
    for name, lines in documents(root):
        yield from command_findings(name, lines, programs)
        yield from table_findings(name, lines)
        yield from link_findings(root, name, lines)
        yield from path_findings(root, name, lines)
        if name == "docs/failures.md":
            yield from test_findings(name, lines, names, test_programs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("build")
    arguments = parser.parse_args()
    found = list(findings(arguments.root, arguments.build))
    for finding in found:
        print(finding, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
