"""MuData files (.h5mu) in chunks: a modality is a view, the names of its observations are the ids."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vedute.data.problems import nearest, some
from vedute.errors import UserError

if TYPE_CHECKING:
    from vedute.data.table import Piece, TableFile

CELLS = 1 << 18  # of a batch


def header(table: TableFile) -> tuple[str, ...]:
    """The id, then the variables of the modality; for a table of subjects the columns of ``.obs``."""
    with _open(table) as data:
        return (table.id, *(map(str, data.obs.columns) if table.modality is None else data.var_names.astype(str)))


def read(table: TableFile, numbers: Sequence[str], text: Sequence[str]) -> Iterator[Piece]:
    """Batches of the ids, ``numbers`` as float64 with NaN for missing, and ``text`` as strings."""
    import pyarrow as pa

    with _open(table) as data:
        names = [str(name) for name in data.obs_names]
        kept = {name: ["" if _missing(v) else str(v) for v in data.obs[name]] for name in text}
        places = [data.var_names.get_loc(name) for name in numbers] if numbers else []
        step = max(256, CELLS // max(1, data.n_vars if numbers else 1))
        for start in range(0, len(names), step):
            rows = slice(start, min(start + step, len(names)))
            block = _dense(table, data, rows)[:, places] if numbers else np.empty((rows.stop - start, 0))
            yield (
                pa.array(names[rows], pa.string()),
                np.ascontiguousarray(block),
                {name: pa.array(values[rows], pa.string()) for name, values in kept.items()},
            )


def _missing(value: Any) -> bool:
    return value is None or value != value


def _dense(table: TableFile, data: Any, rows: slice) -> Any:
    part = data.X[rows]
    part = part.toarray() if hasattr(part, "toarray") else part
    try:
        return np.asarray(part, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{table.label}: modality {table.modality!r} does not hold numbers; convert its X") from None


@contextmanager
def _open(table: TableFile) -> Iterator[Any]:
    """The modality, or the whole file for a table of subjects, left on disk."""
    try:
        import mudata
    except ImportError:
        raise UserError(f"{table.label}: reading .h5mu needs the extra: pip install 'vedute[mudata]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuData announces its own future changes, which do not concern the user
        try:
            whole = mudata.read_h5mu(table.path, backed="r")
        except Exception as error:  # anndata and h5py raise nearly anything on a damaged file
            raise UserError(f"{table.label}: not a MuData file, or damaged ({error}); write it again") from None
    try:
        if table.modality is not None and table.modality not in whole.mod:
            known = [str(name) for name in whole.mod]
            raise UserError(
                f"{table.label}: no modality {table.modality!r} among {some(known)}"
                f"{nearest(table.modality, known)}; name it: modality = ..."
            )
        yield whole if table.modality is None else whole.mod[table.modality]
    finally:
        whole.file.close()
