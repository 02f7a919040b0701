"""The end of an encrypted run at the lead: it opens the model that a center sealed for it, where one did."""

from __future__ import annotations

from pathlib import Path

from vedute.core.layout import Layout
from vedute.data.files import read_whole, sha256
from vedute.data.scaling import from_vectors
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation import store
from vedute.federation.model import Model
from vedute.federation.model_file import build_prior
from vedute.federation.protocol import Refused
from vedute.federation.sealing import unseal
from vedute.federation.settings import Settings
from vedute.federation.wire import decode_question


def take_ended(
    ended: store.Ended, folder: Path, kit: Path, study: Study, settings: Settings, run: str
) -> store.Run | store.Ended:
    """Finish the lead's run folder: with the model, or without one where it stays with the centers."""
    if ended.sealed is None:
        store.finish_unread(folder, ended)
        return ended
    model = _opened(ended, read_whole(kit / "startup/client.key"), study, settings, run)
    finished = store.Run(model, ended.history, ended.converged)
    store.finish(folder, finished)
    return finished


def _opened(ended: store.Ended, key: bytes, study: Study, settings: Settings, run: str) -> Model:
    assert ended.sealed is not None
    columns = {view: study.columns[view] for view in sorted(study.columns)}
    layout = Layout(tuple(columns), tuple(len(names) for names in columns.values()))
    try:
        told = decode_question(unseal(ended.sealed, key, run.encode()), layout)
    except Refused as reason:
        raise UserError(f"the model that the center sealed is none ({reason}); ask that center") from None
    if (told.step, told.run, told.study) != ("finish", run, sha256(study.text.encode())) or told.settings != settings:
        raise UserError("the sealed model was fitted with other settings than those asked for; ask the center")
    scalers = {}
    if "shift" in told.values and "scale" in told.values:
        scaler = from_vectors(layout, told.values["shift"], told.values["scale"])
        scalers = dict.fromkeys(ended.history[-1].centers, scaler)
    return Model(layout, columns, build_prior(told.values, layout), {}, scalers, settings)
