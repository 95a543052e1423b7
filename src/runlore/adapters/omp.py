"""Oh My Pi (`omp`): a fork of pi that writes the same entries, and some of its own, to a folder of
its own.

Learned from the source of `@oh-my-pi/pi-coding-agent` 18.3.4 (`session-entries.ts`,
`session-manager.ts`); no real session was at hand. Last checked 2026-11. The differences: the first
line may be a title that is overwritten, a subagent's file lies in a folder with the name of its
parent's file, and a model is chosen by `provider/model`.
"""

from . import pi


class OmpAdapter(pi.PiAdapter):
    name = "omp"
    label = "Oh My Pi"
    aliases = ()
    roots = ("~/.omp/agent/sessions",)
    command = ("omp", "--resume")


adapter = OmpAdapter()
