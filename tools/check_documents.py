#!/usr/bin/env python3
"""tools/check_documents.py [--run] [--root ROOT] BUILD: checks that the documents show what exists.

Every command of `tally` in a document, in a block or in backticks, must exist, and so must its
options and the values of options with a fixed set. The same holds for targets of make, presets,
programs of the build, tests that docs/failures.md names, paths in backticks, and links. Tables
have as many cells in each row as in their head. Python and Make files in fences are not read.

--run also executes the commands of all blocks in a temporary folder, except those of NOT_RUN. The
exit code must be 0, or the one that the document shows with `echo $?`, or not 0 if the output
that the document shows is an error of tally. Output lines that the document shows must be printed
where EXACT lists the command. Of ctest, only the list of tests is made.

BUILD is the folder of the build, with tally and its tests. Exit code 1 if something is wrong.
"""
import argparse
import fnmatch
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/*.md", "recipes/README.md",
             "recipes/*/README.md", "examples/README.md", "deploy/README.md", "bench/*/README.md"]

# A line of a block is a command if it begins with "$ " or with one of these words; lines of
# transcripts, which have a "$ " somewhere, need it.
PROGRAMS = ["tally", "make", "cmake", "ninja", "ctest", "mpirun", "srun", "torchrun", "kubectl",
            "podman", "export", "build/", ".ci/run", "TALLY_", "PKG_CONFIG_PATH="]

# Commands that are not executed, as patterns of the whole line, and the reason. They are checked
# like all others.
NOT_RUN = [
    ("make *", "builds, or takes minutes"),
    ("PKG_CONFIG_PATH=* make", "tests/consumer does it"),
    ("cmake *", "tests/consumer does it"),
    ("ninja *", "builds"),
    (".ci/run", "takes an hour"),
    ("export *", "tests/consumer does it"),
    ("podman *", "needs podman"),
    ("kubectl *", "needs a cluster; tools/check_manifests.py reads the manifest"),
    ("srun *", "needs Slurm; launchers_slurm_test does it"),
    ("torchrun *", "needs PyTorch; launchers_torchrun_test does it"),
    ("*mpirun *", "needs MPI; launchers_mpi_test does it"),
    ("*--hosts a:2,b:2 *", "needs two hosts; run_ssh_test does it"),
    ("*--hostfile *", "needs two hosts; run_ssh_test does it"),
    ("tally doctor --hosts *", "needs two hosts; doctor_test does it"),
    ("tally serve *", "needs several hosts; serve_test and server_test do it"),
    ("*10.0.0.1:*", "needs several hosts; server_two_hosts_test does it"),
    ("tally status*", "needs a job that runs; coordinator_status_test does it"),
    ("tally inspect trace*", "needs a job that runs; coordinator_status_test does it"),
    ("tally inspect checkpoint runs*", "needs a damaged checkpoint; checkpoint_test does it"),
    ("head -2 listing.txt", "needs a damaged checkpoint; checkpoint_test does it"),
    ("*checkpoint_cost *", "takes minutes"),
    ("*overhead_bench *", "takes minutes"),
    ("*train_bench *", "takes minutes"),
    ("tally bench allreduce*", "takes minutes"),
    ("tally bench train*", "takes minutes; bench_train_test does it with less"),
    ("tally bench compress*", "takes minutes; bench_compress_test does it with less"),
    ("tally bench codec*", "takes minutes; bench_codec_test does it with less"),
    ("tally bench policy*", "takes minutes"),
    ("tally bench server*", "takes minutes"),
    ("tally bench word2vec*", "takes minutes"),
    ("tally bench startup*", "takes a minute"),
    ("tally data get *", "fetches data; data_process_test does it with made data"),
    ("tally data check NAME*", "the form of the command"),
    ("tally data check fashion-mnist", "needs the dataset"),
    ("tally data check photos", "needs damaged images; data_process_test does it"),
    ("tally data check t10k-*", "needs the dataset"),
    ("tally train *--data fashion-mnist*", "trains for minutes"),
    ("*tally train lenet *", "trains for minutes"),
    ("tally train gpt *", "trains for minutes"),
    ("tally train resnet*", "trains for hours on a GPU"),
    ("tally train word2vec *", "trains for minutes; word2vec_process_test does it with less"),
    ("tally eval analogy *", "needs word vectors; word2vec_process_test does it"),
    ("tally eval similarity *", "needs word vectors; word2vec_process_test does it"),
    ("tally train deepfm *", "needs the dataset; train_keyed_test does it with made data"),
    ("tally train logistic *", "needs the dataset; train_keyed_test does it with made data"),
    ("tally train widedeep --data adult *", "needs the dataset"),
    ("build/dev/*", "needs the preset dev"),
]

# Commands for Tally's own processes, which no help lists; and texts that only look like commands.
HIDDEN = ["host-agent", "startup-worker"]
NO_COMMANDS = ["tally rank 3", "tally shm / gloo", "tally shm / best MPI"]

# Transcripts whose output is compared, apart from numbers and the order of lines. The output of
# other transcripts depends on which process is faster.
EXACT = ["tally run -n 4 -- build/*", "tally train linear *", "tally data check t.csv",
         "tally data check flats.csv*", "tally data check typed.csv*",
         "tally train widedeep --data clicks.tsv"]

# Files that the executed commands use.
FLATS = "rooms,area,town,price\n" + "".join(
    f"{1 + i % 6},{20 + i * 37 % 180},{['Ulm', 'Bonn', 'Kiel'][i % 3]},{500 + i * 37 % 180 * 5}\n"
    for i in range(400))
FILES = {
    "flats.csv": FLATS,
    "typed.csv": FLATS.replace("4,131,Ulm,", "4,131,Ulmm,", 1),
    "t.csv": "item,price\n" + "1,20\n" * 5 + "7,about 90\n",
    "clicks.tsv": "".join(label + "\t1" * 13 + "\tab" * 26 + "\n" for label in ["1", ""]),
    "houses.csv": "rooms,place,age,price\n" + "".join(
        f"{i % 9},{['city', 'land'][i % 2]},{i * 7 % 90},{i % 9 * 20 + i % 2 * 50 - i * 7 % 90}\n"
        for i in range(200)),
    "new.csv": "id,place,rooms,age\n1,city,4,10\n2,land,,80\n",
    "table.csv": "x,y,label\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(200)),
}

NEEDS_TORCH = re.compile(r"tally (train|predict|generate|eval|export) ")
MESSAGE = re.compile(r"tally [a-z ]+: ")  # of tally, on stderr
TESTS = re.compile(r"\b(?:TYPED_TEST|TEST|TEST_F|TEST_P|TYPED_TEST_P)\(\s*(\w+),\s*(\w+)\)")
SUITES = re.compile(r"\bINSTANTIATE_\w+\(\s*(\w+)\s*,\s*(\w+)")


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
        for text in re.findall(r"`((?:tally|make|build/release/tally) [^`]+)`", line):
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


def make_listing(folder, build):
    """A folder with the tests of the build for ctest, which replaces the log of its folder."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write(f'subdirs("{os.path.abspath(build)}")\n')


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


def plain(text):
    """The words of an output, apart from numbers and from how lines are broken."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,:e-]*[kM]?|\bon \w+\b", "#", text)).strip()


def run_command(command, folder, build):
    """Returns what is wrong with the result of a command; empty: nothing."""
    text = command.text
    if text.startswith("ctest "):
        text = text.replace("build/release", "listing") + " -N"  # ctest runs this
    variables = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", TMPDIR=folder, HOME=folder)
    try:
        done = subprocess.run(["bash", "-c", text], cwd=folder, env=variables, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    except subprocess.TimeoutExpired:
        return "it did not end within 300 s"
    fails = any(MESSAGE.match(line) for line in command.output)
    wrong = done.returncode != command.code if command.code is not None else \
        (done.returncode != 0) != (fails and "restart" not in "".join(command.output))
    if wrong:
        return f"exit code {done.returncode}\n{done.stdout}"
    if "Total Tests: 0" in done.stdout:
        return "there is no such test"
    if any(fnmatch.fnmatch(command.text, pattern) for pattern in EXACT):
        printed = plain(done.stdout)
        # A line that is indented by four continues the one above it.
        shown = re.sub(r"\n {4,}", " ", "\n".join(command.output)).splitlines()
        for line in shown:
            if line.strip() != "..." and plain(line) not in printed:
                return f"does not print: {line}\nbut:\n{done.stdout}"
    return ""


def prepare(folder, build):
    """Makes the folder in which the commands of one document run."""
    make_listing(os.path.join(folder, "listing"), build)
    os.makedirs(os.path.join(folder, "build"))
    for file, text in FILES.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            out.write(text)
    os.symlink(os.path.abspath(build), os.path.join(folder, "build", "release"))
    for program in ["program", "train"]:  # the program of the reader
        shutil.copy(os.path.join(build, "examples", "05_hello_job"), os.path.join(folder, program))


def run_all(root, build):
    """Yields what is wrong with the executed commands."""
    unused = {pattern for pattern, _ in NOT_RUN}
    has_torch = os.path.exists(os.path.join(build, "tally-train"))
    chosen = []
    for name, lines in documents(root):
        for command in read_codes(list(commands(name, lines))):
            command.text = re.sub(r"\s+# .*", "", command.text)
            reasons = [p for p, _ in NOT_RUN if fnmatch.fnmatch(command.text, p)]
            unused -= set(reasons)
            if not reasons and (has_torch or not NEEDS_TORCH.match(command.text)):
                chosen.append(command)
    yield from (f"NOT_RUN: no document has {pattern}" for pattern in sorted(unused))
    with tempfile.TemporaryDirectory() as top:
        for command in chosen:
            folder = os.path.join(top, command.place.split(":")[0].replace("/", "-"))
            if not os.path.exists(folder):
                prepare(folder, build)
            problem = run_command(command, folder, os.path.abspath(build))
            print(f"{command.place}: {command.text}: {'ok' if not problem else 'FAILED'}")
            if problem:
                yield f"{command.place}: {command.text}: {problem}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("build")
    arguments = parser.parse_args()
    found = list((run_all if arguments.run else findings)(arguments.root, arguments.build))
    for finding in found:
        print(finding, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
