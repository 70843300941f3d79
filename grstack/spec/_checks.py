"""What must fit together in versions.yaml. Each check takes the raw document and yields (path, message)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from packaging.utils import canonicalize_name

from grstack.spec._faults import Path, Raw

Finding = tuple[Path, str]
Check = Callable[[Raw], Iterator[Finding]]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _packages(target: Raw) -> dict[str, Raw]:
    return {canonicalize_name(name): value for name, value in target["packages"].items()}


def pythons_are_supported(doc: Raw) -> Iterator[Finding]:
    supported = doc["pythons"]["supported"].names()
    default = doc["pythons"]["default"]
    if default.text and default.text not in supported:
        yield default.path, f"default Python {default.text} is not in supported ({_listed(supported)})"


def bases_are_pinned(doc: Raw) -> Iterator[Finding]:
    for name, base in doc["bases"].items():
        if ("digest" in base) == ("unpinned" in base):
            yield base.path, f"base {name} needs either a digest or, under 'unpinned', the reason why it has none"


def targets_have_bases(doc: Raw) -> Iterator[Finding]:
    bases = doc["bases"].names()
    for name, target in doc["targets"].items():
        if name == "npu":
            if not target["platforms"].names():
                yield target.path, "target npu needs at least one platform (twin, cann)"
            if "base" in target:
                yield target["base"].path, "the base of target npu stands under its platforms"
        elif "platforms" in target:
            yield target["platforms"].path, f"only target npu has platforms, {name} has none"
        elif "base" not in target:
            yield target.path, f"target {name} needs a base"
        for platform, settings in target["platforms"].items():
            if "base" not in settings:
                yield settings.path, f"platform {platform} needs a base"
        for place in (target, *(settings for _, settings in target["platforms"].items())):
            others = list(place["other_pythons"].items())
            for base in (place["base"], *(base for _, base in others)):
                if base.text and base.text not in bases:
                    yield base.path, f"unknown base '{base.text}'; valid: {_listed(bases)}"
            for python, base in others:
                if base.text in bases and python not in doc["bases"][base.text]["pythons"].names():
                    yield base.path, f"base {base.text} has no Python {python}"


def toolkits_fit(doc: Raw) -> Iterator[Finding]:
    """A base with CANN: a torch_npu goes with it, and a platform that names the base names the same release."""
    torch = _packages(doc["targets"]["npu"]).get("torch")
    for name, base in doc["bases"].items():
        cann = base["cann"]
        if "home" in base and not cann.text:
            yield base["home"].path, f"base {name} has the home of a toolkit, but no cann"
        rows = [
            row
            for row in doc["compatibility"].elements()
            if canonicalize_name(row["package"].text) == "torch-npu" and row["cann"].text == cann.text
        ]
        if cann.text and torch and torch.text and torch.text not in {row["torch"].text for row in rows}:
            yield cann.path, f"no row under 'compatibility' has a torch_npu for CANN {cann.text} and torch {torch.text}"
    for platform, settings in doc["targets"]["npu"]["platforms"].items():
        cann = doc["bases"][settings["base"].text]["cann"]
        if cann.text and settings["cann"].text and cann.text != settings["cann"].text:
            yield (
                settings["cann"].path,
                f"platform {platform} says CANN {settings['cann'].text}, its base has {cann.text}",
            )


def npu_package_matches_target(doc: Raw) -> Iterator[Finding]:
    for name, target in doc["targets"].items():
        packages = _packages(target)
        if name == "npu" and packages and "torch-npu" not in packages:
            yield target["packages"].path, "target npu needs torch_npu"
        if name != "npu" and "torch-npu" in packages:
            yield packages["torch-npu"].path, f"torch_npu belongs to target npu, not to {name}"
        if {"fbgemm-gpu", "fbgemm-gpu-cpu"} <= set(packages):
            yield packages["fbgemm-gpu"].path, "fbgemm_gpu and fbgemm_gpu_cpu write the same folder: keep one"


def releases_fit(doc: Raw) -> Iterator[Finding]:
    """torch_npu and fbgemm against torch, CANN and Python, by the compatibility table."""
    supported = list(doc["pythons"]["supported"].elements())
    known = {canonicalize_name(row["package"].text) for row in doc["compatibility"].elements()}
    for name, target in doc["targets"].items():
        packages = _packages(target)
        for package in sorted(known & set(packages)):
            pin = packages[package]
            rows = [
                row
                for row in doc["compatibility"].elements()
                if canonicalize_name(row["package"].text) == package and row["version"].text == pin.text
            ]
            if not rows:
                if pin.text:
                    yield pin.path, f"{package} {pin.text} has no row under 'compatibility'"
                continue
            row = rows[0]
            torch = packages.get("torch")
            if torch and torch.text and row["torch"].text and torch.text != row["torch"].text:
                yield pin.path, f"{package} {pin.text} goes with torch {row['torch'].text}, not with {torch.text}"
            builds = row["pythons"].names()
            for python in supported:
                if not builds or not python.text or python.text in builds:
                    continue
                if not _declared_unsupported(doc, name, python.text):
                    yield (
                        python.path,
                        f"{package} {pin.text} of target {name} has no build for Python {python.text}"
                        f" ({_listed(builds)})",
                    )
            for platform, settings in target["platforms"].items():
                cann = settings["cann"]
                if row["cann"].text and cann.text and cann.text != row["cann"].text:
                    yield (
                        cann.path,
                        f"{package} {pin.text} goes with CANN {row['cann'].text}, not with {cann.text}"
                        f" (platform {platform})",
                    )


def _declared_unsupported(doc: Raw, target: str, python: str) -> bool:
    return any(
        row["target"].text == target and "arch" not in row and row["python"].text in ("", python)
        for row in doc["unsupported"].elements()
    )


def references_exist(doc: Raw) -> Iterator[Finding]:
    targets = doc["targets"].names()
    for _, target in doc["targets"].items():
        packages = set(_packages(target))
        named = [*target["source_only"].elements(), *(value for _, value in target["bad_metadata"].items())]
        for item in named:
            name = item.text if item.path[-2] == "source_only" else str(item.path[-1])
            if name and canonicalize_name(name) not in packages:
                yield item.path, f"'{name}' is not among the packages of this target"
        for item in target["excludes"].elements():
            if item.text and canonicalize_name(item.text) in packages:
                yield item.path, f"'{item.text}' is both a package and excluded"
    for row in doc["unsupported"].elements():
        if row["target"].text and row["target"].text not in targets:
            yield row["target"].path, f"unknown target '{row['target'].text}'; valid: {_listed(targets)}"
    for row in doc["variants"].elements():
        for item in row["targets"].elements():
            package = _packages(doc["targets"][item.text]).get(canonicalize_name(row["package"].text))
            if item.text not in targets:
                yield item.path, f"unknown target '{item.text}'; valid: {_listed(targets)}"
            elif package is None or package.text != row["version"].text:
                yield (
                    row["version"].path,
                    (
                        f"variant of {row['package'].text} {row['version'].text}, but target {item.text} has "
                        f"{package.text if package else 'no such package'}"
                    ),
                )


def operators_have_known_socs(doc: Raw) -> Iterator[Finding]:
    known = doc["socs"].names()
    for name, operator in doc["operators"].items():
        for soc in operator["socs"].elements():
            if soc.text and soc.text not in known:
                yield soc.path, f"operator {name} is built for unknown SoC '{soc.text}'; valid: {_listed(known)}"
        for soc_name in operator["refused"].names() - known:
            yield operator["refused"].path, f"operator {name} refuses unknown SoC '{soc_name}'; valid: {_listed(known)}"


def datasets_name_their_wheel(doc: Raw) -> Iterator[Finding]:
    for name, dataset in doc["datasets"].items():
        package, version, wheel = (dataset[key].text for key in ("package", "version", "wheel"))
        if package and version and wheel and not wheel.startswith(f"{package.replace('-', '_')}-{version}-"):
            yield dataset["wheel"].path, f"data set {name}: '{wheel}' is not a wheel of {package} {version}"


def files_of_data_have_one_hash(doc: Raw) -> Iterator[Finding]:
    for name, dataset in doc["datasets"].items():
        if "file" in dataset and sum(key in dataset for key in ("sha256", "md5", "unverified")) != 1:
            yield dataset.path, f"data set {name} needs sha256, md5 or, under 'unverified', the reason why it has none"


CHECKS: tuple[Check, ...] = (
    pythons_are_supported,
    bases_are_pinned,
    targets_have_bases,
    toolkits_fit,
    npu_package_matches_target,
    releases_fit,
    references_exist,
    operators_have_known_socs,
    datasets_name_their_wheel,
    files_of_data_have_one_hash,
)
