#!/usr/bin/env python3
"""tools/check_manifests.py [FILE]: checks deploy/kubernetes/job.yaml, or FILE, and prints errors.

The script compares every object with the models of the Kubernetes API in the package
python3-kubernetes: names of fields, types, required fields and allowed values. It then checks that
the parts of the file agree: the Service that gives the pods their names, the number of ranks, the
address of rank 0, and the mounted secret. The exit code is 1 if there are errors, and 77 if a
package is missing.
"""
import os
import re
import sys

try:
    import yaml
    from kubernetes import client
except ImportError as missing:
    print(f"check_manifests: {missing}: install python3-kubernetes and python3-yaml")
    sys.exit(77)

MODELS = {("v1", "Service"): "V1Service", ("batch/v1", "Job"): "V1Job"}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def compare(value, type_name, path):
    """Yields the errors of a value that should be of this type of the API."""
    inner = re.fullmatch(r"(list\[|dict\(str, )(.*)[\])]", type_name)
    if inner and inner.group(1) == "list[":
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for index, element in enumerate(value):
            yield from compare(element, inner.group(2), f"{path}[{index}]")
    elif inner:
        if not isinstance(value, dict):
            yield f"{path}: not a map"
            return
        for key, element in value.items():
            yield from compare(element, inner.group(2), f"{path}.{key}")
    elif type_name in PLAIN:
        bool_as_number = type_name != "bool" and isinstance(value, bool)
        if not isinstance(value, PLAIN[type_name]) or bool_as_number:
            yield f"{path}: {value!r} is not of type {type_name}"
    elif hasattr(client, type_name):
        yield from compare_object(value, getattr(client, type_name), path)


def compare_object(value, model, path):
    if not isinstance(value, dict):
        yield f"{path}: not an object"
        return
    attribute_of = {field: attribute for attribute, field in model.attribute_map.items()}
    known = {}
    for field, element in value.items():
        if field not in attribute_of:
            yield f"{path}.{field}: no such field"
            continue
        known[attribute_of[field]] = element
        yield from compare(element, model.openapi_types[attribute_of[field]], f"{path}.{field}")
    try:
        model(**known)  # checks required fields and allowed values
    except ValueError as problem:
        yield f"{path}: {problem}"


def cross_check(service, job):
    """Yields inconsistencies inside the file."""
    spec = job["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    name = job["metadata"]["name"]
    if spec.get("completionMode") != "Indexed":
        yield "the Job is not Indexed: its pods have no rank"
    if not spec["completions"] == spec["parallelism"] == int(env.get("WORLD_SIZE", "0")):
        yield "completions, parallelism and WORLD_SIZE differ"
    if service["spec"].get("clusterIP") != "None":
        yield "the Service is not headless: its pods have no names"
    if service["spec"]["selector"] != {"job-name": name}:
        yield "the Service selects other pods than the Job's"
    if pod.get("subdomain") != service["metadata"]["name"]:
        yield "subdomain is not the name of the Service"
    if env.get("MASTER_ADDR") != f"{name}-0.{pod.get('subdomain')}":
        yield "MASTER_ADDR is not the name of the first pod"
    ports = {int(env.get("MASTER_PORT", "0"))}
    ports_elsewhere = {port["port"] for port in service["spec"]["ports"]}
    ports_elsewhere |= {port["containerPort"] for port in container["ports"]}
    if ports != ports_elsewhere:
        yield "MASTER_PORT is not the port of Service and container"
    yield from cross_check_secret(pod, container, env)


def cross_check_secret(pod, container, env):
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for volume in pod["volumes"]:
        secret = volume.get("secret")
        if secret is None:
            continue
        if secret.get("defaultMode", 0o644) & 0o077:
            yield f"volume {volume['name']}: others could read the secret"
        files = [f"{mounts.get(volume['name'])}/{item['path']}" for item in secret["items"]]
        if env.get("TALLY_SECRET_FILE") not in files:
            yield "TALLY_SECRET_FILE is not a file of the mounted secret"
        if not pod["securityContext"].get("fsGroup"):
            yield "without fsGroup a program that is not root cannot read the secret"
        return
    yield "no secret is mounted"


def check(text):
    """Returns the errors of a manifest, one string for each."""
    problems = []
    objects = {}
    for document in yaml.safe_load_all(text):
        model = MODELS.get((document.get("apiVersion"), document.get("kind")))
        if model is None:
            problems.append(
                f"{document.get('apiVersion')} {document.get('kind')}: not expected here")
            continue
        objects[document["kind"]] = document
        problems += compare(document, model, document["kind"])
    if set(objects) != {"Service", "Job"}:
        problems.append("there should be one Service and one Job")
    if not problems:
        problems += cross_check(objects["Service"], objects["Job"])
    return problems


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, "..", "deploy", "kubernetes", "job.yaml")
    path = sys.argv[1] if len(sys.argv) > 1 else default
    with open(path, encoding="utf-8") as file:
        problems = check(file.read())
    for problem in problems:
        print(f"{os.path.normpath(path)}: {problem}")
    if not problems:
        print(f"check_manifests: {os.path.basename(path)} is as Kubernetes and Tally want it")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
