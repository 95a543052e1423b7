"""The click group of all commands: finds them, lists them in the help and catches their errors."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from .. import __version__
from .failures import shown_errors
from .output import replace_unknown_characters
from .selection import WORDS

FOLDER = os.path.join(os.path.dirname(__file__), "commands")

GROUPS: dict[str, tuple[str, ...]] = {
    "Every day": ("up", "sync", "ls", "show", "search", "resume"),
    "What happened, and what to learn from it": (
        "usage",
        "fix",
        "errors",
        "patterns",
        "lessons",
        "measure",
        "retro",
        "file",
        "commit",
        "related",
        "skills",
    ),
    "Agents": ("agents", "hooks", "mcp", "live"),
    "What is kept": ("mark", "export", "secrets", "evict", "forget", "backup", "copy", "doctor"),
    "More": ("demo", "serve", "autostart", "completion"),
}
"""The sections of the help. Commands that are not named here are listed in the last one."""

REST = "More"


class Commands(click.Group):
    """A group with one command for each module of `commands`.

    Listing the commands reads the first line of each file. Only the command that is used is
    imported.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py") and name[0] != "_"
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__package__}.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Treat `help COMMAND` as `COMMAND --help`, also for the command of a group, and suggest a
        command for an unknown name."""
        if ctx.resilient_parsing:  # Called for shell completion.
            return super().resolve_command(ctx, args)
        if args[:1] == ["help"]:
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        if (name := args[0]) not in self.list_commands(ctx) and name[:1].isalpha():
            ctx.fail(
                f"no such command {name!r}; {self.suggestion(ctx, name)}`runlore help` lists"
                " them all"
            )
        return super().resolve_command(ctx, args)

    def suggestion(self, ctx: click.Context, name: str) -> str:
        every = self.list_commands(ctx)
        near = [known for known in every if known.startswith(name)] or get_close_matches(
            name, every, 2
        )
        return f"did you mean {' or '.join(near)}? " if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = self.list_commands(ctx)
        grouped = {name for group in GROUPS.values() for name in group}
        sections = {
            **GROUPS,
            REST: [*GROUPS[REST], *(name for name in every if name not in grouped)],
        }
        widest = max(map(len, every))
        formatter.write_paragraph()
        for title, group in sections.items():  # No blank lines: the help should fit on a screen.
            formatter.write_heading(title)
            with formatter.indentation():
                formatter.write_dl(
                    [(name.ljust(widest), short_help(name)) for name in group if name in every]
                )

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        words = tuple(args)  # Parsing takes them out of the list.
        with shown_errors(words):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[WORDS] = words
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        with shown_errors(ctx.meta.get(WORDS, ())):
            try:
                replace_unknown_characters()
                return super().invoke(ctx)
            finally:  # Flush on every exit, so that errors of the output are caught here.
                sys.stdout.flush()


def short_help(name: str) -> str:
    """The first line of a command's module, which is the first line of its help as well."""
    with open(os.path.join(FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().strip('"').removesuffix(".")


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "A session is named by the beginning of its id, `latest`, `latest:AGENT` or `latest:REPO`."
        " Exit status: 0 done, 1 failed, or nothing found by search, fix, file and commit, 2 wrong"
        " usage, 3 over budget, 130 interrupted."
    ),
)
@click.version_option(__version__, "-V", "--version", message="runlore %(version)s")
@click.option("--no-pager", is_flag=True, help="Print long output all at once.")
def cli(no_pager: bool) -> None:
    """Keeps every session your coding agents ever ran, and makes them readable."""
