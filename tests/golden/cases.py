"""Canonical fits, each done in several modes: in memory, in files, interrupted and resumed, across sites.

A case gives the digests of its parts for each mode. A part that several modes have must be the same in all of them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import inside
import numpy as np
import pandas as pd
from worlds import Array, Files, World, make_world, write_world

from vedute import (
    CenterPrivacy,
    FederatedPPCA,
    GlobalPrior,
    PaperPrivacy,
    Study,
    SubjectPrivacy,
    ViewPrior,
    select_components,
)
from vedute.cli import main as vedute
from vedute.datasets import make_hierarchical, make_sd
from vedute.scenarios import split

Parts = dict[str, str]
Modes = dict[str, Parts]
Options = dict[str, Any]
Case = Callable[[Path], Modes]
Fitted = FederatedPPCA | inside.Federation

SCALINGS = ("shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared", None)
SHORT: Options = {
    "n_components": 2, "rounds": 6, "iterations": 4, "first_iterations": 6, "tol": None, "scaling": "shared-standard",
}  # fmt: skip
PRIOR = ("mu", "W", "sigma2_mu", "sigma2_W", "alpha", "beta", "sigma2", "n_centers")
SIZES = {"A": 6, "B": 4, "C": 3}
CENTERS = {"nice": 30, "paris": 25, "zurich": 28}
LACKING = {"paris": ["C"], "zurich": ["B"]}
HOSPITALS = make_world(CENTERS, SIZES, lacking=LACKING, empty=0.05, absent=0.15, seed=1)
WHOLE = make_world(CENTERS, SIZES, empty=0.05, absent=0.15, seed=9)  # every center holds every view
MANY = make_world({"nice": 300, "paris": 250, "zurich": 280}, {"A": 4, "B": 3}, seed=2)
MANY_LACKING = make_world(
    {"nice": 300, "paris": 250, "zurich": 280}, {"A": 4, "B": 3}, lacking={"paris": ["B"]}, seed=2
)
SEED = 7  # of noise


# --- digests ----------------------------------------------------------------------------------------------------------


def digest(*values: Any) -> str:
    """SHA-256 of numbers by their bits (little-endian float64), and of text; 16 digits of it."""
    hashed = hashlib.sha256()
    for piece in _pieces(values):
        hashed.update(piece)
    return hashed.hexdigest()[:16]


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, str | None):
        yield f"text {value}\0".encode()
    elif isinstance(value, pd.DataFrame):
        yield from _pieces([list(map(str, value.columns)), value.to_numpy(dtype=np.float64)])
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield from _pieces([str(name), value[name]])
    elif isinstance(value, list | tuple):
        yield f"list {len(value)}\0".encode()
        for part in value:
            yield from _pieces(part)
    else:
        numbers = np.asarray(value, dtype="<f8")
        yield f"array {numbers.shape}\0".encode()
        yield np.ascontiguousarray(numbers).tobytes()


def model_parts(est: Fitted) -> Parts:
    """Every array of a fitted model, the views of a center side by side."""
    views = [view for _, view in sorted(est.prior_.views.items())]
    own = [(name, center) for name, center in sorted(est.centers_.items())]
    held = [(name, view, params) for name, center in own for view, params in sorted(center.views.items())]
    scalers = est.scaler_ if isinstance(est.scaler_, dict) else {"": est.scaler_}
    return {
        **{f"prior.{name}": digest([getattr(view, name) for view in views]) for name in PRIOR},
        "prior.tau2": digest(est.prior_.tau2),
        **{
            f"centers.{part}": digest([[name, view, getattr(params, part)] for name, view, params in held])
            for part in ("mu", "W", "sigma2")
        },
        "centers.m": digest([[name, center.m] for name, center in own]),
        **{
            f"scaler.{part}": digest({name: getattr(scaler, part) for name, scaler in scalers.items()})
            for part in ("shift", "scale")
        },
    }


def history_parts(est: Fitted) -> Parts:
    """The rounds, without the seconds they took."""
    return {
        **{f"history.{part}": digest([record[part] for record in est.history_]) for part in ("change", "centers")},
        "history.spreads": digest([{view: list(s) for view, s in r["spreads"].items()} for r in est.history_]),
        "history.bytes": digest([[record["bytes_up"], record["bytes_down"]] for record in est.history_]),
        "history.end": digest(est.n_rounds_, est.converged_),
    }


def only(mode: str, parts: Parts, *names: str) -> Parts:
    """Parts of which those named (default: all) are not to be compared with other modes."""
    return {f"{name} ({mode})" if not names or name in names else name: value for name, value in parts.items()}


def latent(tables: Mapping[str, Array]) -> Parts:
    """Latent means of each center's subjects."""
    return {f"latent.{center}": digest(x) for center, x in tables.items()}


def latent_files(local: Path) -> Parts:
    """The same from ``local/`` of a run folder, and what else lies there, but for the fingerprint of the rows."""
    tables, parts = {}, {}
    for folder in sorted(path for path in local.iterdir() if path.is_dir()):
        with open(folder / "latent.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        lines.sort(key=lambda line: int(line["id"].removeprefix(folder.name)))
        tables[folder.name] = np.array([[float(v) for k, v in line.items() if k != "id"] for line in lines])
        for path in sorted(folder.glob("*.json")):
            told = {k: v for k, v in json.loads(path.read_text()).items() if k != "fingerprint"}
            parts[f"local.{folder.name}.{path.stem}"] = digest(json.dumps(told, sort_keys=True))
    return latent(tables) | parts


# --- modes ------------------------------------------------------------------------------------------------------------


def command(*words: object) -> None:
    """``vedute WORDS``; an exit status other than 0 is an error."""
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            vedute([str(word) for word in words])
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"vedute {' '.join(map(str, words))}: {err.getvalue()}") from None


def fit(world: World, options: Options) -> FederatedPPCA:
    """In memory."""
    return FederatedPPCA(random_state=0, **options).fit(world.centers, ranges=world.ranges)


def in_memory(world: World, options: Options) -> Parts:
    """A fit in memory and its projections."""
    est = fit(world, options)
    known = {name: est.transform(table, center=name) for name, table in world.centers.items() if name in est.centers_}
    return model_parts(est) | history_parts(est) | latent(known)


def run_folder(run: Path) -> Parts:
    """A run folder that a fit wrote."""
    est = FederatedPPCA.load(run)
    return model_parts(est) | history_parts(est) | latent_files(run / "local")


def fit_words(options: Options) -> list[object]:
    """The options of ``vedute fit``."""
    names = {name: name.replace("_", "-").removeprefix("n-") for name in options}
    return [
        word for name, value in options.items() for word in (f"--{names[name]}", "none" if value is None else value)
    ]


def in_files(study: Path, out: Path, options: Options) -> Parts:
    """``vedute fit``."""
    command("fit", study, "--out", out, *fit_words(options))
    return run_folder(out)


def resumed(study: Path, out: Path, options: Options, after: int = 3) -> Parts:
    """Interrupted after some round, then ``vedute fit --resume``."""
    inside.fit_files(study, out, options, dies_after=after)
    command("fit", study, "--out", out, "--resume")
    return run_folder(out)


def killed(study: Path, out: Path, options: Options, after: int = 4) -> Parts:
    """A process that is killed after some round, then ``vedute fit --resume``."""
    words = [sys.executable, inside.__file__, study, out, after, json.dumps(options)]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the fit was not killed: {done.stderr}")
    command("fit", study, "--out", out, "--resume")
    return run_folder(out)


def across_sites(files: Files, folder: Path, options: Options, **how: Any) -> Modes:
    """What the server knows, its run folder, and the run folders that centers have at home."""
    found = inside.fit_sites(files.shared, files.nodes, folder, options, **how)
    local: Parts = {}
    for home in found.homes.values():
        local |= {name: value for name, value in latent_files(home / "local").items() if name.startswith("latent")}
    if not found.centers_ or options.get("privacy") is not None:
        local = only("sites", local)  # by the global model
    known = model_parts(found) | history_parts(found)
    parts = {"sites": only("sites", known, "history.bytes", "scaler.shift", "scaler.scale") | local}
    for name, home in found.homes.items():
        at_home = model_parts(FederatedPPCA.load(home))
        parts[f"home of {name}"] = {part: value for part, value in at_home.items() if part.startswith("prior")}
    if options["scaling"] != "center-minmax":  # the server knows none of the scalings
        est = FederatedPPCA.load(found.server)
        parts["server"] = model_parts(est) | only("sites", history_parts(est), "history.bytes")
    return parts


# --- cases ------------------------------------------------------------------------------------------------------------


def scaled(preset: str, scaling: str | None, folder: Path) -> Modes:
    """Missing cells, subjects and centers without a view, and every mode; the sites are restarted amid the run."""
    options = SHORT | {"rounds": 4, "preset": preset, "scaling": scaling}
    files = write_world(HOSPITALS, folder / "study", components=2, scaling=scaling)
    found = {
        "memory": in_memory(HOSPITALS, options),
        "files": in_files(files.whole, folder / "files", options),
        "resumed": resumed(files.whole, folder / "resumed", options, after=2),
        **across_sites(files, folder / "sites", options, dies_after=2),
    }
    whole = write_world(WHOLE, folder / "whole", components=2, scaling=scaling)
    est = FederatedPPCA(random_state=0, **options).fit(Study.load(whole.whole))
    both = {"whole, memory": in_memory(WHOLE, options), "whole, study": model_parts(est) | history_parts(est)}
    return found | {mode: {f"{part} (whole)": value for part, value in parts.items()} for mode, parts in both.items()}


def interrupted(preset: str, folder: Path) -> Modes:
    """Pooled files, a killed process, sites that nobody disturbs."""
    options = SHORT | {"preset": preset}
    files = write_world(WHOLE, folder / "study", components=2, scaling=options["scaling"])
    return {
        "memory": in_memory(WHOLE, options),
        "pooled": in_files(files.pooled, folder / "pooled", options),
        "killed": killed(files.whole, folder / "killed", options),
        **across_sites(files, folder / "sites", options),
    }


def everywhere(world: World, options: Options, folder: Path, after: int = 3) -> Modes:
    """In memory, resumed, and across sites that are restarted."""
    files = write_world(world, folder / "study", components=options["n_components"], scaling=options["scaling"])
    return {
        "memory": in_memory(world, options),
        "resumed": resumed(files.whole, folder / "resumed", options, after),
        **across_sites(files, folder / "sites", options, dies_after=after),
    }


def small(rows: Mapping[str, int], sizes: Mapping[str, int], changes: Options, folder: Path, **how: Any) -> Modes:
    """A world of its own."""
    return everywhere(make_world(rows, sizes, **how), SHORT | changes, folder)


def corrections(folder: Path) -> Modes:
    """Each of the three corrections without the others; not an option of the command."""
    every = dict.fromkeys(("posterior_variances", "case_mix", "spread"), False)
    found = {}
    for preset, name in product(("default", "paper"), ("none", *every)):
        options = SHORT | every | ({name: True} if name in every else {}) | {"preset": preset}
        found[f"{preset}, {name}"] = only(f"{preset}, {name}", in_memory(WHOLE, options))
    return found


def short_tables(folder: Path) -> Modes:
    """A subject who lacks a view has no line in its table, so subjects come in another order than in memory."""
    files = write_world(HOSPITALS, folder / "study", components=2, scaling="shared-standard", short=True)
    return {
        "files": in_files(files.whole, folder / "files", SHORT),
        "pooled": in_files(files.pooled, folder / "pooled", SHORT),
        **across_sites(files, folder / "sites", SHORT),
    }


def given_prior(folder: Path) -> Modes:
    """The paper's second initialisation: a prior for one view in round 1."""
    W = np.arange(12.0).reshape(6, 2) / 10 - 0.4
    prior = GlobalPrior({"A": ViewPrior(np.linspace(-0.3, 0.3, 6), W, 0.5, 0.4, 3.0, 0.9)})
    found = {}
    for preset in ("default", "paper"):
        est = FederatedPPCA(random_state=0, preset=preset, **SHORT).fit(HOSPITALS.centers, prior=prior)
        found[preset] = only(preset, model_parts(est) | history_parts(est))
    return found


def uses(preset: str, folder: Path) -> Modes:
    """What can be asked of a fitted model, in memory, after it was saved and loaded, and by commands."""
    est = fit(WHOLE, SHORT | {"preset": preset})
    est.save(folder / "saved")
    files = write_world(WHOLE, folder / "study", components=2, scaling="shared-standard")
    run = folder / "run"
    command("fit", files.whole, "--out", run, *fit_words(SHORT | {"preset": preset}))
    written = {}
    for name in ("project", "impute", "harmonise", "score"):
        command(name, run, files.whole, "--out", folder / f"{name}.csv")
        written[f"vedute {name}"] = digest((folder / f"{name}.csv").read_text())
    command("sample", run, "-n", 5, "--seed", 3, "--out", folder / "sample.csv")
    written["vedute sample"] = digest((folder / "sample.csv").read_text())
    return {
        "memory": answers(est),
        "saved": answers(FederatedPPCA.load(folder / "saved")),
        "files": answers(FederatedPPCA.load(run)) | written,
    }


def answers(est: FederatedPPCA) -> Parts:
    """All methods, by the global model, by a center's own, and by a center that is adapted."""
    table = WHOLE.centers["nice"]
    new = make_world({"new": 20}, SIZES, empty=0.1, seed=11).centers["new"]
    adapted = est.adapt({"A": new["A"], "B": new["B"]})
    found: dict[str, Any] = {"adapt": [adapted.m, {k: [v.mu, v.W, v.sigma2] for k, v in adapted.views.items()}]}
    for name, rows, center in (("global", new, None), ("nice", table, "nice"), ("adapted", {"A": new["A"]}, adapted)):
        found |= {
            f"transform {name}": list(est.transform(rows, center=center, return_cov=True)),
            f"reconstruct {name}": est.reconstruct(rows, center=center),
            f"impute {name}": list(est.impute(rows, center=center, return_std=True)),
            f"score_samples {name}": est.score_samples(rows, center=center),
            f"variance_explained {name}": est.variance_explained(rows, center=center),
            f"sample {name}": est.sample(4, random_state=5, center=center),
        }
    waic = est.waic(WHOLE.centers, draws=20)
    found |= {
        "harmonise nice": est.harmonise(table, "nice"),
        "harmonise adapted": est.harmonise({"A": new["A"]}, adapted),
        "center_deviation": est.center_deviation(),
        "waic": [waic.waic, waic.se, waic.lppd, waic.p, waic.n],
    }
    return {name: digest(value) for name, value in found.items()}


CHOSEN = ("waic", "se", "difference", "difference_se", "p_waic", "mae", "rounds")


def selected(preset: str, folder: Path) -> Modes:
    """Choice of the number of components in memory and by ``vedute select``."""
    options = {"rounds": 5, "preset": preset}
    files = write_world(WHOLE, folder / "study", components=2, scaling="shared-standard")
    found = select_components(WHOLE.centers, [1, 2], jobs=1, **options)
    command("select", files.whole, "--components", "1,2", "--jobs", 1, "--out", folder / "run", *fit_words(options))
    with open(folder / "run" / "selection.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        "memory": {f"select {name}": digest([float(getattr(c, name)) for c in found.choices]) for name in CHOSEN}
        | {"select": digest([[c.components, c.scaling, c.converged] for c in found.choices], found.recommended)},
        "files": {f"select {name}": digest([float(line[name]) for line in lines]) for name in CHOSEN}
        | model_parts(FederatedPPCA.load(folder / "run")),
    }


def private(world: World, policy: Any, options: Options, folder: Path, *, sites: bool = True) -> Modes:
    """Seeded noise: in memory, in files, and in sites whose noise is seeded for once."""
    table = {name: getattr(policy, name) for name in ("epsilon", "delta", "first_round") if hasattr(policy, name)}
    told = "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
    privacy = f'[privacy]\npolicy = "{policy.name}"\n{told}'
    files = write_world(world, folder / "study", components=2, scaling=options["scaling"], privacy=privacy)
    asked = SHORT | {"rounds": 4} | options
    est = fit(world, asked | {"privacy": policy})
    memory = in_memory(world, asked | {"privacy": policy})
    spent = {name: ledger.spent(1e-5, policy.relation, nominal=True) for name, ledger in est.ledgers_.items()}
    study = FederatedPPCA(random_state=0, **asked, privacy=policy).fit(Study.load(files.whole))
    inside.fit_files(files.whole, folder / "files", asked | {"privacy": policy})
    found = {
        "memory": memory | {"ledgers.spent": digest(spent)},
        "study": model_parts(study) | history_parts(study),
        "files": run_folder(folder / "files"),
    }
    if sites:
        how = {"dies_after": 2, "noise_seed": SEED}
        unseeded = type(policy)(**{**vars(policy), "seed": None})
        found |= across_sites(files, folder / "sites", asked | {"privacy": unseeded}, **how)
    return found


def chosen_privately(folder: Path) -> Modes:
    """The number of components by how well one seeded release is met."""
    files = write_world(MANY_LACKING, folder / "study", components=2, scaling="declared")
    policy = SubjectPrivacy(50.0, 1e-5, seed=SEED)
    options = {"scaling": "declared", "rounds": 4, "privacy": policy}
    return {"files": {"misfits": digest(inside.choose_files(files.whole, (1, 2, 3), options))}}


def drawn(folder: Path) -> Modes:
    """Synthetic data and their division among centers."""
    views, groups = make_sd(60, 30, random_state=4)
    parts = {"make_sd": digest(views, groups)}
    for scenario in ("IID", "G", "K", "G/K"):
        parts[f"split {scenario}"] = digest(split(views, groups, 3, scenario, random_state=4)[0])
    hierarchical = make_hierarchical(random_state=4)
    return {"memory": parts | {"make_hierarchical": digest(hierarchical[0])}}


FOUR = {"nice": 30, "paris": 25, "zurich": 28, "lyon": 22}
ALIKE = {f"center{k}": 24 for k in range(6)}
UNLIKE = {"lacking": {"lyon": ["A"], "nice": ["B"], "zurich": ["A", "C"]}, "empty": 0.1, "absent": 0.2, "seed": 4}
SUBJECT = SubjectPrivacy(50.0, 1e-5, seed=SEED)
CENTER = CenterPrivacy(80.0, 1e-5, seed=SEED)
PAPER = PaperPrivacy(20.0, 0.01, seed=SEED)
PUBLIC = PaperPrivacy(20.0, 0.01, first_round="public", seed=SEED)
ALGORITHM_2 = {"scaling": "declared", "preset": "paper"}

CASES: dict[str, Case] = {
    **{
        f"{preset}, {scaling}": partial(scaled, preset, scaling)
        for preset, scaling in product(("default", "paper"), SCALINGS)
    },
    **{f"killed, {preset}": partial(interrupted, preset) for preset in ("default", "paper")},
    "acceleration": partial(everywhere, WHOLE, SHORT | {"rounds": 30}, after=17),
    "settling": partial(everywhere, HOSPITALS, SHORT | {"rounds": 60, "tol": 0.01}),
    "alike centers": partial(small, ALIKE, SIZES, {"n_components": 3}, seed=3),
    "alike centers, paper": partial(small, ALIKE, SIZES, {"preset": "paper"}, seed=3),
    "unlike centers": partial(small, FOUR, SIZES, {}, **UNLIKE),
    "own iterations": partial(everywhere, HOSPITALS, SHORT | {"iterations": {"nice": 2, "paris": 7, "zurich": 4}}),
    **{
        f"narrow views, {preset}": partial(
            small, FOUR, {"A": 1, "B": 2, "C": 5}, {"n_components": 3, "preset": preset}, empty=0.05, seed=5
        )
        for preset in ("default", "paper")
    },
    **{
        f"wide views, {preset}": partial(
            small, {"nice": 12, "paris": 14, "zurich": 10}, {"A": 40, "B": 3}, {"preset": preset}, seed=6
        )
        for preset in ("default", "paper")
    },
    "two centers": partial(small, {"nice": 15, "paris": 12}, SIZES, {}, lacking={"paris": ["B", "C"]}, seed=8),
    "short tables": short_tables,
    "corrections": corrections,
    "given prior": given_prior,
    **{f"uses, {preset}": partial(uses, preset) for preset in ("default", "paper")},
    **{f"selection, {preset}": partial(selected, preset) for preset in ("default", "paper")},
    "subject": partial(private, MANY_LACKING, SUBJECT, {"scaling": "shared-standard"}),
    "subject, declared": partial(private, MANY, SUBJECT, {"scaling": "declared"}),
    "center": partial(private, MANY, CENTER, {"scaling": "declared"}),
    "center, lacking a view": partial(private, MANY_LACKING, CENTER, {"scaling": "declared"}, sites=False),
    "paper policy, raw": partial(private, MANY, PAPER, ALGORITHM_2),
    "paper policy, public": partial(private, MANY, PUBLIC, ALGORITHM_2),
    "paper policy, center-minmax": partial(
        private, MANY, PAPER, ALGORITHM_2 | {"scaling": "center-minmax"}, sites=False
    ),
    "private choice": chosen_privately,
    "synthetic data": drawn,
}
