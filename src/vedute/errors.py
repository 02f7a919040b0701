"""The errors and warnings that vedute raises on purpose."""


class UserError(ValueError):
    """Something that the user can mend; the message says what, where and how."""


class BreakdownError(UserError):
    """Numbers of a fit grew beyond what can be computed with."""


class Refused(Exception):
    """A message of another machine that is not what was agreed; the text is for the side that refuses, at home."""


class DataWarning(UserWarning):
    """The data are unusual in a way that the fit survives but the user should know."""


class ConvergenceWarning(UserWarning):
    """The rounds ran out before the global prior had settled."""
