"""The commands together: options that all share, and errors in one sentence. One file for each
command."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from conecollapse._errors import ConeCollapseError, messages
from conecollapse.cli import DONE, FAILED, INTERRUPTED, STOPPED
from conecollapse.cli.terminal import as_option, note, say, show_note


class Stopped(Exception):
    """Ctrl-C, with what is to be said about it."""


class Commands(TyperGroup):
    """Passes Ctrl-C on as `Stopped`, because typer would drop its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Stopped(str(stop) or STOPPED) from stop


# where each command is; only the one that is asked for is imported
COMMANDS = {
    "demo": "demo",
    "cluster": "cluster",
    "programs": "programs",
    "rays": "rays",
    "unmix": "unmix",
    "novelty": "novelty",
    "predict": "predict",
    "report": "report",
    "verify": "verify",
    "warm": "installed",
    "datasets": "datasets",
}


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """The command with the subcommands that these arguments name; with all where they name none."""
    app = typer.Typer(
        cls=Commands,
        help="Non-negative matrix factorization through the geometry of the data cone.",
        epilog=(
            "Exit codes: 0 done; 1 an error in the data or the options, or a failed verification;"
            " 130 interrupted."
        ),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_options)
    for name in [name for name in COMMANDS if name in arguments] or COMMANDS:
        module = import_module(f"conecollapse.cli.{COMMANDS[name]}")
        if name == "datasets":
            app.add_typer(module.app, name=name)
        else:
            app.command()(getattr(module, name))
    return app


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
        from conecollapse.cli.installed import say_version

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
            given = sys.argv[1:] if arguments is None else list(arguments)
            app = make_app(given)
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
