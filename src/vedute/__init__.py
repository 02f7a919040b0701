"""vedute: hospitals model their patients together without sharing them.

Public names are loaded when they are first asked for, so that the command line answers a slip, a ``--help`` or the
TAB key at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vedute.version import __version__

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.data.views import MultiView
    from vedute.errors import ConvergenceWarning, DataWarning, UserError
    from vedute.estimator import FederatedPPCA
    from vedute.model.parameters import CenterParams, GlobalPrior, ViewParams, ViewPrior
    from vedute.privacy.policies import CenterPrivacy, PaperPrivacy, SubjectPrivacy
    from vedute.run.model_choice import select_components

__all__ = [
    "CenterParams",
    "CenterPrivacy",
    "ConvergenceWarning",
    "DataWarning",
    "FederatedPPCA",
    "GlobalPrior",
    "MultiView",
    "PaperPrivacy",
    "Study",
    "SubjectPrivacy",
    "UserError",
    "ViewParams",
    "ViewPrior",
    "__version__",
    "select_components",
]

_HOMES = {
    "model.parameters": ("CenterParams", "GlobalPrior", "ViewParams", "ViewPrior"),
    "data.study": ("Study",),
    "data.views": ("MultiView",),
    "errors": ("ConvergenceWarning", "DataWarning", "UserError"),
    "estimator": ("FederatedPPCA",),
    "privacy.policies": ("CenterPrivacy", "PaperPrivacy", "SubjectPrivacy"),
    "run.model_choice": ("select_components",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            found = getattr(import_module(f"vedute.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'vedute' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
