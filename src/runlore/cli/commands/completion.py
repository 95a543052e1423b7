"""Print the script that completes commands, agents and session ids.

\b
  bash   eval "$(runlore completion bash)"       in ~/.bashrc
  zsh    eval "$(runlore completion zsh)"        in ~/.zshrc
  fish   runlore completion fish | source        in ~/.config/fish/config.fish
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..group import cli
from ..output import echo


@click.command(help=__doc__)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    maker = get_completion_class(shell)
    assert maker is not None
    echo(maker(cli, {}, "runlore", "_RUNLORE_COMPLETE").source())
