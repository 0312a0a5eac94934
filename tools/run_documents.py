#!/usr/bin/env python3
"""tools/run_documents.py [--root ROOT] BUILD: executes the commands of the documents.

The commands of all blocks are executed, each document in a temporary folder, except those of
NOT_RUN. The exit code must be 0, or the one that the document shows with `echo $?`, or not 0 if
the output that the document shows is an error of tally. Output lines that the document shows must
be printed where EXACT lists the command. Of ctest, only the list of tests is made.

BUILD is the folder of the build, with tally and its tests. Exit code 1 if something is wrong.
"""
import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile

from documents import MESSAGE, commands, documents, make_listing, read_codes

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
    ("tally train deepfm *--data m*", "needs the dataset; train_keyed_test does it with made data"),
    ("tally train deepfm --data train.txt *", "needs the dataset"),
    ("tally train deepfm --data adult *", "needs the dataset"),
    ("tally train logistic --data a9a*", "needs the dataset"),
    ("tally train widedeep --data adult *", "needs the dataset"),
    ("build/dev/*", "needs the preset dev"),
    ("tools/gpu_check.sh *", "needs a GPU; gpu_check_test.py does it without one"),
]

# Transcripts whose output is compared, apart from numbers and the order of lines. The output of
# other transcripts depends on which process is faster.
EXACT = ["tally run -n 4 -- build/*", "tally train linear *", "tally data check t.csv",
         "tally data check flats.csv*", "tally data check typed.csv*",
         "tally data check visits.csv*", "tally train deepfm --data visits.csv*",
         "head -3 visits.csv",
         "tally train widedeep --data clicks.tsv"]

# Files that the executed commands use.
FLATS = "rooms,area,town,price\n" + "".join(
    f"{1 + i % 6},{20 + i * 37 % 180},{['Ulm', 'Bonn', 'Kiel'][i % 3]},{500 + i * 37 % 180 * 5}\n"
    for i in range(400))


def houses(numbers):
    return "".join(
        f"{i % 9},{['city', 'land'][i % 2]},{i * 7 % 90},{i % 9 * 20 + i % 2 * 50 - i * 7 % 90}\n"
        for i in numbers)


FILES = {
    "flats.csv": FLATS,
    "visits.csv": "town,shop,amount,bought\n" + "".join(
        f"{['Ulm', 'Kiel', 'Bonn'][i % 3]},{1 + (i // 3 + 2) % 6},"
        f"{'' if i % 5 == 1 else 12.5 + i * 37 % 180 / 4},"
        f"{'yes' if (i % 3 == 0) == ((i // 3 + 2) % 6 < 3) else 'no'}\n" for i in range(400)),
    "typed.csv": FLATS.replace("4,131,Ulm,", "4,131,Ulmm,", 1),
    "t.csv": "item,price\n" + "1,20\n" * 5 + "7,about 90\n",
    "clicks.tsv": "".join(label + "\t1" * 13 + "\tab" * 26 + "\n" for label in ["1", ""]),
    "houses.csv": "rooms,place,age,price\n" + houses(range(200)),
    "sold.csv": "rooms,place,age,price\n" + houses(range(200, 240)),
    "new.csv": "id,place,rooms,age\n1,city,4,10\n2,land,,80\n",
    "table.csv": "x,y,label\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(200)),
}

NEEDS_TORCH = re.compile(r"tally (train|predict|generate|eval|export) ")


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
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("build")
    arguments = parser.parse_args()
    found = list(run_all(arguments.root, arguments.build))
    for finding in found:
        print(finding, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
