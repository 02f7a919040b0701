"""Ways of dealing one study out to several centers, as in the paper's table of scenarios."""

from vedute.data.scenarios import Scenario, split

__all__ = ["Scenario", "split"]
