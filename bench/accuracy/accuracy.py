#!/usr/bin/env python3
"""Trains recipes under many plans and writes docs/accuracy.md.

Every plan is trained with the same seeds as the reference, update=bsp without a codec. Experiments
that cannot be trained on this machine keep their sections of the page. Exit code 1
if a plan leaves its band, if a reference misses its level, or if a training fails; 2 if nothing
can be trained; 130 after Ctrl-C. Finished trainings are not repeated. README.md has the method.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

from comparison import compare
from experiments import EXPERIMENTS, QUICK, Row
from page import page_of, section_of, sections_in, table_of, title_line

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FETCHED = ("mnist", "fashion-mnist", "cifar10", "imdb")  # by `tally data get`
TIMEOUT_S = 3600  # of one training


class Failure(Exception):
    """A command failed; the text says which and how."""


def output_of(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{shlex.join(command)}: did not finish within {TIMEOUT_S} s") from error
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().splitlines()[-3:]
        raise Failure(f"{shlex.join(command)}: exit code {done.returncode}: {' | '.join(last)}")
    return done.stdout


def commit_of(root):
    """The commit of the tree; marked if a file outside docs/ differs from it."""
    commit = output_of(["git", "-C", root, "rev-parse", "--short=10", "HEAD"]).strip()
    changes = output_of(["git", "-C", root, "status", "--porcelain", "--", ".", ":!docs"])
    return commit + (" with changes" if changes.strip() else "")


def parsed(line):
    """The object of a line; None for one that was not written to its end."""
    try:
        return json.loads(line)
    except ValueError:
        return None


class Results:
    """Finished commands and their figures, one JSON object per line of a file. Only those of the
    present commit are used again, and none if the tree has changes."""

    def __init__(self, path, commit):
        self.path, self.commit = path, commit
        self.lock = threading.Lock()
        self.known = {}
        if os.path.exists(path) and "changes" not in commit:
            with open(path, encoding="utf-8") as file:
                lines = [line for line in map(parsed, file) if line]
            self.known = {line["command"]: line for line in lines if line["commit"] == commit}

    def of(self, command, measure):
        """The figures of a command: known ones, or those that measure() returns now."""
        if command not in self.known:
            begin = time.monotonic()
            figures = measure()
            line = {"commit": self.commit, "command": command, "figures": figures,
                    "seconds": time.monotonic() - begin}
            with self.lock:
                self.known[command] = line
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        return self.known[command]


class Runner:
    """Runs the commands of experiments."""

    def __init__(self, options, results):
        self.options, self.results = options, results
        self.lock = threading.Lock()
        self.done, self.total, self.seconds = 0, 0, 0.0
        self.failures = []

    def find(self, data):
        """The place of a dataset; None if this machine cannot have it."""
        if data not in FETCHED:
            path = os.path.join(self.options.data, data)
            return path if os.path.exists(path) else None
        try:
            said = self.run(["tally", "data", "get", data])
        except Failure as failure:
            print(failure, file=sys.stderr)
            return None
        return re.search(rf"^{data} is in (.*), [^,]*, sha256", said, re.MULTILINE).group(1)

    def run(self, command):
        """Executes a command; `tally` means that of the build. Returns its output."""
        if command[0] == "tally":
            command = [self.options.tally, *command[1:]]
        return output_of(command)

    def train(self, experiment, paths, plan, seed):
        """Returns the figure of a training; None if it failed."""
        def measure():
            with tempfile.TemporaryDirectory() as folder:
                return experiment.measure(plan, seed, paths, folder, self.run)

        metric, command = experiment.metric, experiment.command(plan, seed)
        try:
            line = self.results.of(command, measure)
            figure = float(line["figures"][metric.key]) * metric.factor
        except (Failure, AttributeError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, Failure) else f"{command}: no {metric.name}"
            self.failures.append(reason)
            self.tell(f"FAILED: {reason}")
            return None
        self.tell(f"{experiment.name}, {plan}, seed {seed}: {figure:.{metric.digits}f} "
                  f"after {line['seconds']:.0f} s", line["seconds"])
        return figure

    def tell(self, text, seconds=0.0):
        with self.lock:
            self.done += 1
            self.seconds += seconds
            print(f"[{self.done}/{self.total}] {text}", file=sys.stderr, flush=True)

    def train_all(self, experiments):
        """Returns the figures of all seeds by plan, for each experiment that can be trained
        here."""
        has_gpu = any(e.device == "cuda" for e in experiments) and gpu() is not None
        possible = [e for e in experiments if e.device == "cpu" or has_gpu]
        found = {data: self.find(data) for e in possible for data in e.needs}
        ready = [e for e in possible if all(found[data] for data in e.needs)]
        self.total = sum(len(e.rows) * e.seeds for e in ready)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            started = {e.name: {row.plan: [pool.submit(self.train, e, found, row.plan, seed)
                                           for seed in range(1, e.seeds + 1)] for row in e.rows}
                       for e in ready}
            try:
                return {name: {plan: [each.result() for each in seeds]
                               for plan, seeds in plans.items()}
                        for name, plans in started.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def check_joined_batches(build):
    """Runs the tests that N workers train as one worker with the joined batch."""
    said = output_of([os.path.join(build, "adapters", "torch", "torch_test"),
                      "--gtest_filter=*JoinedBatch*"])
    passed = re.search(r"\[  PASSED  \] (\d+) tests?", said)
    if not passed or int(passed.group(1)) == 0:
        raise Failure("torch_test has no test JoinedBatch")


def gpu():
    """The name of the first GPU; None if there is none."""
    try:
        said = output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    except Failure:
        return None
    return said.strip().splitlines()[0] if said.strip() else None


def machine(device):
    """Cores, processor and GPU, for the page."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    cores = f"{os.cpu_count()} cores ({model.group(1) if model else 'unknown processor'})"
    return cores if device == "cpu" else f"{gpu()}, {cores}"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="folder of the build")
    parser.add_argument("--tally", help="the program tally; default: that of the build")
    parser.add_argument("--data", default=os.path.join(ROOT, "data"), metavar="FOLDER",
                        help="datasets that `tally data get` does not fetch; README.md lists them")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter trainings, in ten minutes; no page is written")
    parser.add_argument("--only", default="", metavar="NAME",
                        help="experiments whose names contain NAME; the other sections of the page "
                             "stay as they are")
    parser.add_argument("--plans", default="", metavar="PLAN/PLAN",
                        help="these plans in place of those of the experiment, beside the "
                             "reference; no page is written")
    parser.add_argument("--seeds", type=int, help="seeds of every plan; no page is written")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2),
                        help="trainings at a time; default: one for two cores")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "accuracy.md"),
                        metavar="FILE", help="the page; default: docs/accuracy.md")
    parser.add_argument("--results", help="file of finished trainings; default: accuracy.jsonl in "
                                          "the folder of the build")
    options = parser.parse_args()
    options.tally = options.tally or os.path.join(options.build, "tally")
    options.results = options.results or os.path.join(options.build, "accuracy.jsonl")
    return options


def plans_of(experiment, text):
    """Rows of the named plans: with their bands, or with the widest one of the experiment."""
    widest = max(row.band for row in experiment.rows)
    known = {row.plan: row for row in experiment.rows}
    return [known.get(plan, Row(plan, widest)) for plan in text.split("/")]


def chosen(options):
    """The experiments with the changes that the options ask for."""
    result = [e for e in (QUICK if options.quick else EXPERIMENTS) if options.only in e.name]
    if options.plans:
        result = [dataclasses.replace(e, rows=(e.rows[0], *plans_of(e, options.plans)))
                  for e in result]
    if options.seeds:
        result = [dataclasses.replace(e, seeds=options.seeds) for e in result]
    return result


def needs_of(experiment):
    """What a machine must have."""
    gpu_too = ["a GPU"] if experiment.device == "cuda" else []
    return ", ".join([*gpu_too, *(f"`{data}`" for data in experiment.needs)])


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of an experiment that was trained."""
    experiment: object
    section: str
    is_complete: bool  # no training failed
    is_inside: bool    # all rows are inside their bands


def outcome_of(experiment, values, commit):
    """`values` has the figures of all seeds by plan; None for a training that failed."""
    facts = f"Commit {commit}, {machine(experiment.device)}."
    if any(None in figures for figures in values.values()):
        section = section_of(experiment, ["A training failed."], facts)
        return Outcome(experiment, section, is_complete=False, is_inside=False)
    comparisons = compare(experiment, values)
    section = section_of(experiment, table_of(experiment, comparisons), facts)
    return Outcome(experiment, section, True, all(each.is_inside for each in comparisons))


def read_sections(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return sections_in(file.read())


def write_page(path, sections):
    """Writes all sections: those of this run in place of former ones."""
    sections = {**read_sections(path), **sections}
    order = [title_line(e) for e in EXPERIMENTS]
    with open(path, "w", encoding="utf-8") as file:
        file.write(page_of([sections[title] for title in order if title in sections]))


def run(options):
    commit = commit_of(ROOT)
    experiments = chosen(options)
    if not experiments:
        names = ", ".join(e.name for e in EXPERIMENTS)
        raise Failure(f"--only {options.only}: no such experiment; known: {names}")
    if not options.only:
        check_joined_batches(options.build)
    runner = Runner(options, Results(options.results, commit))
    values = runner.train_all(experiments)
    if not values:
        raise Failure("this machine has the data and the GPU of no experiment")
    outcomes = [outcome_of(e, values[e.name], commit) for e in experiments if e.name in values]
    is_printed = options.quick or options.seeds or options.plans
    written = [] if is_printed else [each for each in outcomes if each.is_complete]
    print("\n".join(each.section for each in outcomes if each not in written), end="")
    if written:
        write_page(options.page, {title_line(each.experiment): each.section for each in written})
        print(f"written: {os.path.relpath(options.page)}")
    print(f"trained for {runner.seconds / 60 / options.jobs:.0f} minutes")
    for experiment in experiments:
        if experiment.name not in values:
            print(f"not trained: {experiment.name}, which needs {needs_of(experiment)}")
    outside = [each.experiment.name for each in outcomes if not each.is_inside]
    print(f"outside: {', '.join(outside)}" if outside else
          "all trained plans are inside their bands")
    return 1 if outside else 0


def main():
    try:
        return run(parse_options())
    except Failure as failure:
        print(f"accuracy: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; without changes in the tree, the same command continues",
              file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
