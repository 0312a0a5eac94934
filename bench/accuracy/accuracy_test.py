#!/usr/bin/env python3
"""Tests the comparison of plans, and accuracy.py with a program in place of tally."""
import math
import os
import stat
import subprocess
import sys
import tempfile
import unittest

from accuracy import Results
from comparison import compare
from experiments import ACCURACY, EXPERIMENTS, LOSS, QUICK, Experiment, Row
from page import page_of, section_of, sections_in, title_line

# Writes the record of a training: codec=int8 is 40 points behind. Lists its commands in a file.
FAKE = """#!{python}
import json, os, sys
words = sys.argv[1:]
if words[:2] == ["data", "get"]:
    print(f"{{words[2]}} is in /nowhere, 1MiB, sha256 as published")
elif words[0] == "train":
    plan = words[words.index("--plan") + 1]
    if plan == os.environ.get("FAILS"):
        sys.exit("error: it fails")
    none = plan == os.environ.get("NONE")
    bad = plan == "codec=int8" and "BAD" in os.environ
    accuracy = None if none else 0.595 if bad else 0.995
    with open(words[words.index("--json") + 1], "a") as file:
        file.write(json.dumps({{"accuracy": accuracy}}) + "\\n")
    with open(os.path.join(os.path.dirname(sys.argv[0]), "commands"), "a") as file:
        file.write(" ".join(words) + "\\n")
"""


def experiment_of(metric, level, *rows):
    return Experiment("name", "Title", "", "lenet", "mnist", "", metric, rows, 2, level)


class ComparisonTest(unittest.TestCase):
    def test_difference_is_that_of_the_means_and_pools_the_spreads_of_all_plans(self):
        experiment = experiment_of(ACCURACY, 0, Row("a"), Row("b", 1), Row("c", 1))
        values = {"a": [90, 92], "b": [89, 93], "c": [91, 92]}
        a, b, c = compare(experiment, values)
        self.assertEqual((a.mean, a.difference, a.error), (91, 0, 0))
        self.assertAlmostEqual(b.difference, 0)
        self.assertAlmostEqual(c.difference, 0.5)
        # Paired differences -1, 1 and 1, 0 have the variances 2 and 0.5; their median is 1.25.
        self.assertAlmostEqual(b.error, math.sqrt(1.25 / 2))
        self.assertEqual(b.error, c.error)
        self.assertAlmostEqual(b.spread, math.sqrt(8))

    def test_a_plan_is_outside_if_its_band_and_two_standard_errors_do_not_reach(self):
        experiment = experiment_of(ACCURACY, 0, Row("a"), Row("b", 1))
        for behind, inside in ((0.9, True), (1.9, True), (2.1, False)):
            # The differences vary by 0.5 around their mean: the standard error is 0.5.
            values = {"a": [90, 90], "b": [90 - behind - 0.5, 90 - behind + 0.5]}
            compared = compare(experiment, values)[1]
            self.assertAlmostEqual(compared.error, 0.5)
            self.assertEqual(compared.is_inside, inside, behind)

    def test_with_one_seed_only_the_band_counts(self):
        experiment = experiment_of(ACCURACY, 0, Row("a"), Row("b", 1))
        self.assertTrue(compare(experiment, {"a": [90], "b": [89]})[1].is_inside)
        self.assertFalse(compare(experiment, {"a": [90], "b": [88.9]})[1].is_inside)
        self.assertIsNone(compare(experiment, {"a": [90], "b": [89]})[1].spread)

    def test_lower_losses_are_better_in_percent(self):
        experiment = experiment_of(LOSS, 2.5, Row("a"), Row("b", 1))
        a, b = compare(experiment, {"a": [2.0], "b": [2.1]})
        self.assertTrue(a.is_inside)
        self.assertAlmostEqual(b.difference, -5)
        self.assertFalse(b.is_inside)

    def test_a_reference_that_misses_its_level_is_outside(self):
        for metric, level, inside in ((ACCURACY, 91, False), (ACCURACY, 90, True),
                                      (LOSS, 89, False), (LOSS, 90, True)):
            compared = compare(experiment_of(metric, level, Row("a")), {"a": [90, 90]})
            self.assertEqual(compared[0].is_inside, inside)


class ExperimentsTest(unittest.TestCase):
    def test_names_and_plans_are_different_and_bands_are_stated(self):
        for experiments in (EXPERIMENTS, QUICK):
            self.assertEqual(len({e.name for e in experiments}), len(experiments))
            for experiment in experiments:
                plans = [row.plan for row in experiment.rows]
                self.assertEqual(len(set(plans)), len(plans), experiment.name)
                self.assertTrue(all(row.band > 0 for row in experiment.rows[1:]))


class ResultsTest(unittest.TestCase):
    def test_results_of_the_same_commit_are_not_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"commit": "a", "comm\n')  # was not written to its end
            for commit, measured in (("a", 1), ("a", 0), ("b", 1), ("b with changes", 1)):
                calls = []
                line = Results(path, commit).of("command", lambda: calls.append(1) or {"x": 5})
                self.assertEqual((len(calls), line["figures"]), (measured, {"x": 5}), commit)


class PageTest(unittest.TestCase):
    def test_sections_of_a_page_are_found_again(self):
        experiments = [experiment_of(ACCURACY, 0, Row("a")), EXPERIMENTS[0]]
        sections = [section_of(e, ["| a |", "|---|"], "Commit 1.") for e in experiments]
        found = sections_in(page_of(sections))
        self.assertEqual(found, {title_line(e): text for e, text in zip(experiments, sections)})
        self.assertEqual(sections_in(page_of([])), {})


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "page.md")
        self.add_program("tally", FAKE)

    def add_program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.format(python=sys.executable))
        os.chmod(path, stat.S_IRWXU)

    def run_program(self, *arguments, **variables):
        """Programs of the folder, such as nvidia-smi, come before those of the machine."""
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accuracy.py")
        paths = self.folder + os.pathsep + os.environ["PATH"]
        return subprocess.run(
            [sys.executable, program, "--tally", os.path.join(self.folder, "tally"), "--data",
             self.folder, "--results", os.path.join(self.folder, "results.jsonl"), "--page",
             self.path, *arguments],
            env={**os.environ, "PATH": paths, **variables}, capture_output=True, text=True,
            check=False)

    def page(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def test_plans_inside_their_bands_are_a_success(self):
        done = self.run_program("--only", "lenet-mnist")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| `codec=int8` | 99.50 | 0.00 | +0.00 |", self.page())
        self.assertIn("all trained plans are inside their bands", done.stdout)

    def test_other_sections_of_the_page_stay_and_the_order_is_that_of_the_experiments(self):
        fashion, mnist = (next(e for e in EXPERIMENTS if e.name == name)
                          for name in ("lenet-fashion", "lenet-mnist"))
        kept = section_of(fashion, ["An older table."], "Commit 1.")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(page_of([kept, section_of(mnist, ["To be replaced."], "Commit 1.")]))
        self.assertEqual(self.run_program("--only", "lenet-mnist").returncode, 0)
        page = self.page()
        self.assertIn(kept, page)
        self.assertNotIn("To be replaced.", page)
        self.assertLess(page.index(title_line(mnist)), page.index(title_line(fashion)))

    def test_other_seeds_and_plans_are_printed_and_write_no_page(self):
        for options in (("--seeds", "1"), ("--plans", "codec=int8"), ("--quick",)):
            done = self.run_program("--only", "lenet-mnist", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("## LeNet on MNIST", done.stdout)
            self.assertIn("| 99.50 |", done.stdout)
            self.assertFalse(os.path.exists(self.path))

    def test_a_plan_that_leaves_its_band_is_a_failure(self):
        done = self.run_program("--only", "lenet-mnist", BAD="1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("**outside**", self.page())
        self.assertIn("outside: lenet-mnist", done.stdout)

    def test_a_training_without_a_figure_is_named_and_its_section_is_not_written(self):
        done = self.run_program("--only", "lenet", NONE="home=server update=subset:3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--plan \"home=server update=subset:3\": no accuracy", done.stderr)
        self.assertIn("A training failed.", done.stdout)
        self.assertEqual(list(sections_in(self.page())), ["## LeNet on MNIST"])

    def test_a_training_that_fails_is_named(self):
        done = self.run_program("--only", "lenet-mnist", FAILS="codec=int8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 1: error: it fails", done.stderr)

    def test_missing_data_and_unknown_names_are_told(self):
        done = self.run_program("--only", "gpt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("has the data and the GPU of no experiment", done.stderr)
        done = self.run_program("--only", "t", "--plans", "codec=int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not trained: gpt, which needs `tinyshakespeare/input.txt.gz`", done.stdout)
        done = self.run_program("--only", "resnet99")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such experiment; known: lenet-mnist", done.stderr)

    def test_an_experiment_for_a_gpu_is_trained_where_there_is_one(self):
        self.add_program("nvidia-smi", "#!/bin/sh\nexit 9\n")
        done = self.run_program("--only", "resnet18")
        self.assertEqual(done.returncode, 2)
        self.add_program("nvidia-smi", "#!/bin/sh\necho Fast GPU\n")
        done = self.run_program("--only", "resnet18")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Fast GPU, ", self.page())
        self.assertIn("| `codec=sign` | 99.50 |", self.page())
        with open(os.path.join(self.folder, "commands"), encoding="utf-8") as file:
            self.assertTrue(all("--device cuda" in command for command in file))


if __name__ == "__main__":
    unittest.main()
