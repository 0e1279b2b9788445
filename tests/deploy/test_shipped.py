"""What deploy/ ships: packages with hashes, images with digests, and containers that may do no more than they must."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.lock import lock
from tests.browser.server import ROOT

DIGEST = r"@sha256:[0-9a-f]{64}"
CONTAINER = {
    "python_version": "3.12",
    "python_full_version": "3.12.14",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
}


def shipped(name: str) -> str:
    return (ROOT / "deploy" / name).read_text(encoding="utf-8")


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def kubernetes(kind: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(shipped("kubernetes.yaml")) if each["kind"] == kind]


def pins() -> dict[str, str]:
    """Versions in the lock, by names; every line of it is a pin or one of its hashes."""
    text = re.sub(r"^#.*\n", "", shipped("requirements.lock"), flags=re.MULTILINE)
    found = re.findall(r"^([a-z0-9-]+)==([\w.+]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", text, re.MULTILINE)
    assert sum(len("".join(each)) + 3 for each in found) == len(text)
    assert len({name for name, *_others in found}) == len(found)
    return {name: version for name, version, _hashes in found}


def test_the_lock_has_every_pin_of_the_requirements_and_all_that_they_require():
    locked, seen, different = pins(), set[str](), set[str]()

    def look(requirement: Requirement) -> None:
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is not in the lock: make it again"
        assert requirement.specifier.contains(locked[name], prereleases=True)
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key in seen:
            return
        seen.add(key)
        if metadata.version(name).partition("+")[0] != locked[name].partition("+")[0]:
            different.add(name)  # a newer one is here, which may require others
            return
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            extras = {"", *requirement.extras}
            machines = [CONTAINER | {"platform_machine": each} for each in ("x86_64", "aarch64")]
            if needed.marker is None or any(
                needed.marker.evaluate(on | {"extra": x}) for on in machines for x in extras
            ):
                look(needed)

    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        look(Requirement(line.partition("#")[0].strip()))
    assert different or {key.partition("[")[0] for key in seen} == locked.keys()  # and nothing else
    assert locked["torch"].endswith("+cpu")


def test_two_machines_have_one_version_of_a_package(tmp_path):
    def report(name: str, version: str) -> Any:
        archive = {"hashes": {"sha256": version[-1] * 64}}
        package = {"metadata": {"name": "A_b", "version": version}, "download_info": {"archive_info": archive}}
        path = tmp_path / name
        path.write_text(json.dumps({"install": [package]}), encoding="utf-8")
        return path

    same = lock([report("1", "1.0"), report("2", "1.0")])
    assert same.endswith(f"\na-b==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ValueError, match="differ in the versions of a-b"):
        lock([report("1", "1.0"), report("2", "1.1")])


def test_images_have_digests_and_packages_hashes():
    text = shipped("Containerfile")
    assert "extra-index-url" not in text
    assert re.search(rf"^ARG PYTHON=\S+{DIGEST}\nFROM \$\{{PYTHON}}$", text, re.MULTILINE)
    installs = re.findall(r"pip install (.*)", text)
    assert len(installs) == 3
    assert all("--require-hashes" in each or '--index-url "$INDEX" "$(' in each for each in installs)
    assert f"-t vitrine:{version()} ." in text
    services = yaml.safe_load(shipped("compose.yaml"))["services"]
    assert re.search(DIGEST, services["nginx"]["image"])
    assert {services[name]["image"] for name in ("vitrine-1", "vitrine-2")} == {f"vitrine:{version()}"}
    (deployment,) = kubernetes("Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f"/vitrine:{version()}")


def test_no_container_of_compose_has_capabilities_or_writes_into_its_root():
    services = yaml.safe_load(shipped("compose.yaml"))["services"]
    for name, service in services.items():
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True), name
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "mem_limit" in service
    assert services["nginx"]["user"].split(":")[0] not in ("", "0", "root")
    assert [services[f"vitrine-{number}"]["environment"]["VITRINE_REPLICA"] for number in (1, 2)] == ["1", "2"]


def test_kubernetes_lets_a_pod_do_no_more_than_it_must():
    (deployment,) = kubernetes("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (budget,) = kubernetes("PodDisruptionBudget")
    (network,) = kubernetes("NetworkPolicy")
    assert budget["spec"]["selector"]["matchLabels"] == network["spec"]["podSelector"]["matchLabels"] == labels
    assert network["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert network["spec"]["egress"] == []


def test_the_ingress_limits_websockets_and_uploads_alone_and_keeps_figures_in():
    limits: dict[str, str | None] = {}
    closed = set[str]()
    for ingress in kubernetes("Ingress"):
        notes = {name.rpartition("/")[2]: value for name, value in ingress["metadata"]["annotations"].items()}
        (rule,) = ingress["spec"]["rules"]
        assert ingress["spec"]["tls"] == [{"hosts": [rule["host"]], "secretName": "vitrine-tls"}]
        paths = [each["path"] for each in rule["http"]["paths"]]
        limits |= {path: notes.get("limit-rps") for path in paths}
        closed |= {path for path in paths if notes.get("whitelist-source-range") == "127.0.0.1/32"}
    assert {path for path, limit in limits.items() if limit} == {"/_stcore/stream", "/channel", "/_stcore/upload_file"}
    assert closed == {"/metrics", "/_stcore/metrics", "/ready"}
    assert "/" in limits
