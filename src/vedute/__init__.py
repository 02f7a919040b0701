"""vedute: hospitals model their patients together without sharing them."""

from vedute.choice import select_components
from vedute.core.params import CenterParams, GlobalPrior, ViewParams, ViewPrior
from vedute.data.study import Study
from vedute.data.views import MultiView
from vedute.errors import ConvergenceWarning, DataWarning, UserError
from vedute.estimator import FederatedPPCA
from vedute.privacy.policies import CenterPrivacy, PaperPrivacy, SubjectPrivacy
from vedute.version import __version__

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
