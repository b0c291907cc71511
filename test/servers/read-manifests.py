"""Parses manifests of Kubernetes and validates them: test/servers/helm.mjs has the form of its input and output."""

import functools
import json
import sys

import kubernetes_validate
import yaml
from kubernetes_validate import utils

# No schemas are published together with Kubernetes' own for the kinds of operators. prometheus-operator.mjs checks these.
WITHOUT_SCHEMA = {"PrometheusRule", "ServiceMonitor"}

# The library reads a version's definitions, which are some megabytes, for each object.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


class Loader(yaml.SafeLoader):
    """PyYAML takes the last of several equal keys. Kubernetes refuses them."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        for key in {key for key in keys if keys.count(key) > 1}:
            raise yaml.YAMLError(f"the key {key} occurs twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def check(item, version):
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{version}: {item['kind']}: {'.'.join(map(str, error.path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        if item["kind"] not in WITHOUT_SCHEMA:
            yield f"{version}: {error.message}"


def main():
    given = json.load(sys.stdin)
    objects, problems, checked = [], [], set()
    for manifest in given["manifests"]:
        try:
            items = [item for item in yaml.load_all(manifest, Loader) if item]
        except yaml.YAMLError as error:
            problems.append(str(error))
            items = []
        objects.append(items)
        for item in items:
            text = json.dumps(item, sort_keys=True)
            if text in checked:
                continue
            checked.add(text)
            for version in given["versions"]:
                problems.extend(check(item, version))
    json.dump({"objects": objects, "problems": problems}, sys.stdout)


main()
