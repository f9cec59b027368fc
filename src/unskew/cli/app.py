"""The application that commands register with, and the one place where errors become exit codes."""

from __future__ import annotations

import copy
import errno
import re
import sys
import warnings
from functools import cache
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from unskew.cli.own_process import process_of_its_own
from unskew.cli.stopping import Interrupted, stopped_as_by_ctrl_c
from unskew.errors import InputError, RunFailed, one_line, own_line
from unskew.machine.memory import memory_sentence
from unskew.progress import voice
from unskew.renamed import Renamed
from unskew.runs.old_flags import with_new_flags
from unskew.version import __version__

try:
    from typer.exceptions import TyperException as UsageProblem
except ImportError:  # before 0.29, which Flower's own pins need
    from click import ClickException as UsageProblem

PLACES = {
    errno.ENOSPC: "the disk is full; make room, then do it again",
    errno.EDQUOT: "the disk quota is used up; make room, then do it again",
    errno.EACCES: "no permission to read or write here; choose another place",
    errno.EPERM: "no permission to read or write here; choose another place",
    errno.EROFS: "nothing can be written here; choose another place",
    errno.EMFILE: "too many files are open; allow more (ulimit -n 4096), then do it again",
    errno.EFBIG: "a file may not grow any more here; allow larger ones (ulimit -f), then do it again",
    errno.ENAMETOOLONG: "the name is too long for a file; choose a shorter one",
}
"""What can be wrong with a place, and what to do about it."""

ORDER = [
    *["demo", "diagnose", "partition", "datasets", "run", "resume", "sweep", "report", "studio"],
    *["methods", "models", "metrics", "predict", "export", "attack", "reproduce", "bench"],
]
"""Commands as a newcomer needs them: what the data is like, training, what came out, what there is, and the rest."""

app = typer.Typer(
    name="unskew",
    help="Federated learning that works when clients' data is skewed and scarce.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"unskew {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    pass


@cache
def commands(only: str = "") -> Any:
    """The command of this name, or where there is none such all of them, with their flags.

    Those are read from signatures: of all commands that takes longer than most of them do, so it is done once, and for
    the one that was asked for.
    """
    found = copy.copy(app)
    found.registered_commands = [c for c in app.registered_commands if _name(c) == only]
    found.registered_groups = [g for g in app.registered_groups if g.name == only]
    if not (found.registered_commands or found.registered_groups):
        place = {name: at for at, name in enumerate(ORDER)}
        found.registered_commands = sorted(
            app.registered_commands, key=lambda c: place.get(_name(c), len(ORDER))
        )
        found.registered_groups = app.registered_groups
    return typer.main.get_command(found)


def _name(command: Any) -> str:
    return command.name or typer.main.get_command_name(command.callback.__name__)


def _of_tables(message: str) -> str:
    """What to write instead of several tables one after the other; nothing where a complaint is of something else."""
    from unskew.data.cells import TABLES  # numpy comes along, and other complaints need none

    extra = re.search(r"unexpected extra arguments? \(([^)]*)\)", message)
    if extra is None or not extra[1].lower().endswith(TABLES):
        return ""
    return "; put the tables of all clients into one folder and name that, or write them into one table"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 done, 2 bad input, 1 anything else, 130 interrupted."""
    if arguments is not None:
        return _main(arguments)
    with process_of_its_own():
        return _main(sys.argv[1:])


def _main(words: list[str]) -> int:
    def complain(word: str, colour: str, said: object) -> None:
        """A word in colour, then one line of plain text, whatever it quotes."""
        text = Text.assemble((word, f"bold {colour}"), " ", one_line(said))
        Console(stderr=True, soft_wrap=True, highlight=False).print(text)

    def warn(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        """A warning of ours in one line, without the place in our code that it comes from."""
        complain("warning:", "yellow", message)

    try:
        with stopped_as_by_ctrl_c(), warnings.catch_warnings(), voice("--json" not in words):
            warnings.showwarning = warn
            warnings.simplefilter("default", Renamed)
            words = with_new_flags(words, lambda said: warn(said, Renamed))
            result = commands(words[0] if words else "")(
                args=words, prog_name="unskew", standalone_mode=False
            )
        if result == Interrupted().code:  # so Typer says it
            Console(stderr=True).print("interrupted")
        return result if isinstance(result, int) else 0
    except Interrupted:
        return 130
    except SystemExit as error:
        if not (line := own_line(error)):
            raise
        complain("error:", "red", f"sys.exit was called ({line}); raise an error there, or return")
        return 1
    except InputError as error:
        if "--debug" in words:
            raise
        complain("error:", "red", error)
        return 2
    except RunFailed as error:
        complain("error:", "red", error)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        Console(stderr=True).print("interrupted")
        return 130
    except UsageProblem as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # that one has printed the help already
            message = getattr(error, "format_message", error.__str__)()
            complain("error:", "red", " ".join(message.split()) + _of_tables(message))
        return 2
    except OSError as error:
        if "--debug" in words:
            raise
        if isinstance(error, FileNotFoundError) and not error.filename:  # os.getcwd() says no more
            complain("error:", "red", "the folder that this was called in is gone; go to another one")
            return 2
        said = PLACES.get(
            error.errno or 0,
            f"{error.strerror or str(error) or type(error).__name__} (add --debug for the traceback)",
        )
        complain("error:", "red", f"{said}: {error.filename}" if error.filename else said)
        return 2 if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG) else 1
    except Exception as error:
        if "--debug" in words:
            raise
        if (sentence := memory_sentence(error)) is not None:
            complain("error:", "red", sentence)
            return 2
        where = f"{line}; " if (line := own_line(error)) else ""
        complain("error:", "red", f"{type(error).__name__}: {error} ({where}add --debug for the traceback)")
        return 1
