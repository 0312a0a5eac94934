#!/usr/bin/env python3
"""Tests check_documents.py and run_documents.py on small documents and a program of help texts."""
import os
import sys
import tempfile

import check_documents as check
import documents
import run_documents as run

HELP = {
    (): "Subcommands:\n  run   starts\n  bench   measures\n\nExamples:\n",
    ("run",): "Options:\n  -n,--ranks N (1 to 4096)   Ranks\n"
              "  --bind auto|cores|none (default auto)   Cores\n",
    ("bench",): "Subcommands:\n  codec   codecs\n\n",
    ("bench", "codec"): "Options:\n  --json FILE   Lines\n",
    ("train", "lenet"): "Options:\n  --resume{latest} [=STEP]   Continue\n  --plan TEXT   Plan\n",
}


class Programs(check.Programs):
    def __init__(self):
        self.has_torch, self.helps = True, {}
        self.root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        self.makefile = "FUZZ_SECONDS ?= 1\ntest: build\nasan tsan: %: x\n"
        self.ninja = "build examples/05_hello_job: link\nbuild codec_test: phony\n"

    def help(self, words):
        return HELP.get(tuple(words))


def problems(text):
    return list(check.command_findings("d.md", text.splitlines(), Programs()))


def expect(condition, what):
    if not condition:
        print(f"FAILED: {what}")
        sys.exit(1)


def test_commands():
    for good in ["    tally run -n 4 -- ./program        # four ranks",
                 "    tally run --bind=cores --ranks 2 -- build/release/examples/05_hello_job",
                 "    $ tally bench codec --json x\n    output --nonsense",
                 "    tally train lenet --resume=5 \\\n        --plan x",
                 "    tools/gpu_check.sh --only kernels --quick",
                 "Text with `tools/gpu_check.sh --only mixed`.",
                 "    make test FUZZ_SECONDS=5     words", "    make asan tsan",
                 "    ninja -C build/dev codec_test", "    tally run: rank 2: it is gone",
                 "Text with `tally bench codec --json FILE`, `tally run ...` and `make test`.",
                 "```\ntally nonsense\n```"]:
        expect(not problems(good), f"{good}: {problems(good)}")
    for bad, why in [("    tally run --rank 4 -- ./program", "no option --rank"),
                     ("    tally nonsense", "no command `tally nonsense`"),
                     ("    tally bench nonsense", "no command `tally bench nonsense`"),
                     ("    tally run --bind core -- x", "--bind core: not one of"),
                     ("    tally run -n 2 -- tally bench codec --jsn x", "no option --jsn"),
                     ("    TALLY_A=1 tally train lenet --plann x", "no option --plann"),
                     ("    tally train lenet \\\n        --plann x", "no option --plann"),
                     ("    tally train lenett", "no recipe lenett"),
                     ("    $ until tally train lenet --x; do sleep 1; done", "no option --x"),
                     ("    $ tally bench codec -x", "no option -x"),
                     ("Text with `tally bench codec --jsn FILE`.", "no option --jsn"),
                     ("    tools/gpu_check.sh --fast", "no option --fast"),
                     ("Text with `tools/gpu_check.sh --fast --only mixed`.", "no option --fast"),
                     ("    tools/gpu_chek.sh", "no tools/gpu_chek.sh"),
                     ("    make tests", "no target tests"),
                     ("    make test LENGTH=5", "no variable LENGTH"),
                     ("    ninja -C build/dev codecs_test", "no target codecs_test"),
                     ("    build/release/examples/hello", "no program examples/hello"),
                     ("    tally run 'x", "No closing quotation")]:
        found = problems(bad)
        expect(len(found) == 1 and why in found[0], f"{bad}: {found}")


def test_transcripts():
    quoted = "    $ sh -c 'echo a\n      echo b'\n    a\n    b"
    command, = documents.commands("d.md", quoted.splitlines())
    expect(command.text == "sh -c 'echo a\n  echo b'" and command.output == ["a", "b"],
           f"a command of two lines: {command.text}")
    text = ("    $ tally run x\n    tally run: rank 0 failed\n    $ echo $?\n    139\n\n"
            "    $ tally run")
    first, second = documents.read_codes(list(documents.commands("d.md", text.splitlines())))
    expect((first.text, first.code, first.output) ==
           ("tally run x", 139, ["tally run: rank 0 failed"]), "exit code of a transcript")
    expect((second.text, second.code) == ("tally run", None), "second command")


def test_results():
    with tempfile.TemporaryDirectory() as folder:
        for text, code, output, good in [("true", None, [], True), ("false", None, [], False),
                                         ("exit 3", 3, [], True), ("exit 3", 4, [], False),
                                         ("false", None, ["tally run: no"], True),
                                         ("true", None, ["tally run: no"], False)]:
            command = documents.Command("d.md:1", text)
            command.code, command.output = code, output
            result = run.run_command(command, folder, folder)
            expect(bool(result) != good, f"{text} {code} {output}: {result}")
        run.EXACT.append("echo *")
        for output, good in [(["took 9.5 s", "    on hosts"], True), (["took 9 min"], False)]:
            command = documents.Command("d.md:1", "echo took 1.25 s on hosts")
            command.output = output
            expect(bool(run.run_command(command, folder, folder)) != good, str(output))


def test_tables():
    table = ["| a | b |", "|---|---|", "| `x|y` | 2 |", "| \\| | 2 |"]
    expect(not list(check.table_findings("d.md", table)), "a whole table")
    for row in ["| 1 |", "| 1 | 2 | 3 |", "| 1 | 2", "|"]:
        expect(list(check.table_findings("d.md", table + [row])), f"broken row {row}")


def test_links_and_paths():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "docs"))
        for name, text in [("docs/a.md", "# A `b` title\n"), ("docs/c.h", "")]:
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        for line, good in [("[x](docs/a.md)", True), ("[x](docs/a.md#a-b-title)", True),
                           ("[x](https://a.b/c)", True), ("[x](docs/b.md)", False),
                           ("[x](docs/a.md#title)", False)]:
            expect(bool(list(check.link_findings(root, "d.md", [line]))) != good, line)
        for line, good in [("`docs/`", True), ("`docs/*.md`", True), ("`docs/{a.md,c.h}`", True),
                           ("`docs/b.md`", False), ("`docs/{a.md,d.h}`", False),
                           ("`docs/NAME.md`", True)]:
            expect(bool(list(check.path_findings(root, "d.md", [line]))) != good, line)


def test_tests():
    names, programs = {"Suite.ItWorks", "Other.Works"}, {"codec_test"}
    for text, good in [("Suite.ItWorks", True), ("Suite.*", True), ("Sui*", True),
                       ("Suite.*Works", True), ("codec_test", True), ("kPeerLost", True),
                       ("Suite.ItFails", False), ("None.*", False), ("None*", False),
                       ("codecs_test", False)]:
        found = list(check.test_findings("d.md", [f"| x | `{text}` |"], names, programs))
        expect(bool(found) != good, f"{text}: {found}")


for test in [test_commands, test_transcripts, test_results, test_tables, test_links_and_paths,
             test_tests]:
    test()
