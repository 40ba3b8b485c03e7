"""The commands together: options that all share, and errors in one sentence. One file for each
command."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from conecollapse._errors import ConeCollapseError, messages
from conecollapse.cli import DONE, FAILED, INTERRUPTED, STOPPED
from conecollapse.cli.cluster import cluster
from conecollapse.cli.datasets import app as datasets
from conecollapse.cli.demo import demo
from conecollapse.cli.installed import say_version, warm
from conecollapse.cli.novelty import novelty
from conecollapse.cli.rays import rays
from conecollapse.cli.terminal import as_option, note, say, show_note
from conecollapse.cli.unmix import unmix
from conecollapse.cli.verify import verify


class Stopped(Exception):
    """Ctrl-C, with what is to be said about it."""


class Commands(TyperGroup):
    """Passes Ctrl-C on as `Stopped`, because typer would drop its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Stopped(str(stop) or STOPPED) from stop


app = typer.Typer(
    cls=Commands,
    help="Non-negative matrix factorization through the geometry of the data cone.",
    epilog=(
        "Exit codes: 0 done; 1 an error in the data or the options, or a failed verification; 130"
        " interrupted."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (demo, cluster, rays, unmix, novelty, verify, warm):
    app.command()(command)
app.add_typer(datasets, name="datasets")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option(help="Show where an error came from.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --version: also what is installed, and where.")
    ] = False,
) -> None:
    context.obj["debug"] = debug
    if version:
        say_version(verbose)
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command, such as cluster; --help lists them.")


def run(arguments: Sequence[str] | None) -> int:
    """Run a command; its exit code."""
    options: dict[str, Any] = {"debug": bool(os.environ.get("CONECOLLAPSE_DEBUG"))}
    with warnings.catch_warnings(), messages(spell=as_option):
        warnings.simplefilter("default")
        warnings.showwarning = show_note
        try:
            given = None if arguments is None else list(arguments)
            code = app(args=given, prog_name="conecollapse", standalone_mode=False, obj=options)
        except (Stopped, typer.Abort) as stop:
            note(str(stop) or STOPPED)
            return INTERRUPTED
        except Exception as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                say(str(error))
                return DONE
            if options["debug"]:
                raise
            note(_sentence(error))
            return FAILED
    return code if isinstance(code, int) else DONE


def _sentence(error: Exception) -> str:
    """What went wrong: a usage error (click's, by whichever package typer takes it from), ours, the
    system's, or a mistake of ours."""
    if hasattr(error, "format_message"):
        return " ".join(str(error.format_message()).split())
    if isinstance(error, (ConeCollapseError, OSError)):
        return str(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"this should not have happened ({what}); please report it, with what --debug shows."
