"""Reads the documents of the project: their command blocks, and the tests of a build."""
import glob
import os
import re
import shlex

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/*.md", "recipes/README.md",
             "recipes/*/README.md", "examples/README.md", "deploy/README.md", "bench/*/README.md"]

# A line of a block is a command if it begins with "$ " or with one of these words; lines of
# transcripts, which have a "$ " somewhere, need it.
PROGRAMS = ["tally", "make", "cmake", "ninja", "ctest", "mpirun", "srun", "torchrun", "kubectl",
            "podman", "export", "build/", "tools/", ".ci/run", "TALLY_", "PKG_CONFIG_PATH="]

MESSAGE = re.compile(r"tally [a-z ]+: ")  # of tally, on stderr


def documents(root):
    for pattern in DOCUMENTS:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            yield os.path.relpath(path, root), open(path, encoding="utf-8").read().splitlines()


def blocks(lines):
    """Yields the indented blocks as lists of (line number, text)."""
    block, fenced, before = [], False, ""
    for number, line in enumerate(lines + [""], 1):
        fenced = fenced != line.startswith("```")
        inside = line.startswith("    ") and not fenced and (block or not before.strip())
        if inside:
            block.append((number, line[4:]))
        elif block and line.strip():
            yield block
            block = []
        elif block:
            block.append((number, ""))
        before = line
    if block:
        yield block


class Command:
    """A command of a block: its text, and the output below it."""

    def __init__(self, place, text):
        self.place, self.text, self.output, self.code = place, text, [], None


def has_open_quote(text):
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def commands(name, lines):
    """Yields the commands of all blocks, continued lines joined."""
    for block in blocks(lines):
        transcript = any(text.startswith("$ ") for _, text in block)
        last, joined = None, ""
        for number, text in block:
            if joined:
                text = joined + (text if joined.endswith("\n") else text.strip())
                joined = ""
            starts = text.startswith("$ ") if transcript else \
                text.startswith(tuple(PROGRAMS)) and not MESSAGE.match(text)
            if not starts:
                if last and text.strip():
                    last.output.append(text)
                continue
            if text.endswith("\\"):
                joined = text[:-1]
                continue
            if has_open_quote(text) and number != block[-1][0]:
                joined = text + "\n"
                continue
            text = text[2:] if transcript else re.split(r"  +(?![-'\"])", text)[0]
            if text == "echo $?":
                last.code = "next"
                continue
            last = Command(f"{name}:{number}", text)
            yield last


def read_codes(found):
    """The line after `echo $?` is the exit code of the command before it."""
    for command in found:
        if command.code == "next":
            command.code = int(command.output.pop())
    return found


def make_listing(folder, build):
    """A folder with the tests of the build for ctest, which replaces the log of its folder."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write(f'subdirs("{os.path.abspath(build)}")\n')
