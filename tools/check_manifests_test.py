#!/usr/bin/env python3
"""Tests that check_manifests.py reports each of many single changes to the Kubernetes manifest."""
import os
import sys
import unittest

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check_manifests  # noqa: E402

MANIFEST = os.path.join(HERE, "..", "deploy", "kubernetes", "job.yaml")
with open(MANIFEST, encoding="utf-8") as manifest:
    TEXT = manifest.read()

# Original text, replacement, and expected report.
CHANGES = [
    ("completions: 4", "completion: 4", "Job.spec.completion: no such field"),
    ("completions: 4", "completions: four", "'four' is not of type int"),
    ("parallelism: 4", "parallelism: 3", "completions, parallelism and WORLD_SIZE differ"),
    ('value: "4"', 'value: "5"', "completions, parallelism and WORLD_SIZE differ"),
    ('value: "4"', "value: 4", "4 is not of type str"),
    ("completionMode: Indexed", "completionMode: NonIndexed", "not Indexed"),
    ("clusterIP: None", "clusterIP: 10.0.0.1", "not headless"),
    ("job-name: tally-hello", "job-name: other", "selects other pods"),
    ("subdomain: tally-hello", "subdomain: other", "subdomain"),
    ("value: tally-hello-0.tally-hello", "value: tally-hello-1.tally-hello", "MASTER_ADDR"),
    ('value: "29400"', 'value: "29500"', "MASTER_PORT"),
    ("containerPort: 29400", "containerPort: 29500", "MASTER_PORT"),
    ("defaultMode: 0400", "defaultMode: 0444", "others could read"),
    ("/run/tally/secret", "/run/tally/other", "TALLY_SECRET_FILE"),
    ("mountPath: /run/tally", "mountPath: /run/other", "TALLY_SECRET_FILE"),
    ("fsGroup: 10001", "runAsUser: 10001", "fsGroup"),
    ("        - name: rank\n          image", "        - image", "Invalid value for `name`"),
    ("kind: Service", "kind: Pod", "not expected here"),
    ("apiVersion: batch/v1", "apiVersion: batch/v2", "not expected here"),
]


class CheckManifests(unittest.TestCase):
    def test_the_manifest_is_right(self):
        self.assertEqual(check_manifests.check(TEXT), [])

    def test_every_change_is_noticed(self):
        for old, new, expected in CHANGES:
            with self.subTest(old=old, new=new):
                self.assertIn(old, TEXT)
                problems = check_manifests.check(TEXT.replace(old, new, 1))
                self.assertTrue(any(expected in problem for problem in problems), problems)


if __name__ == "__main__":
    unittest.main()
