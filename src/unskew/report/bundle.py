"""Vega, Vega-Lite and Vega-Embed with lines of our own in one script, made once and kept in the user's cache.

To make it takes longer than all the rest of a report, and it is the same for every page.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from unskew.files import replace_file
from unskew.sealed import seal, unseal


def bundled(name: str, snippet: str) -> str:
    """The libraries that ``snippet`` needs, and the snippet; ``name`` is that of the file which keeps them.

    What was made of another snippet or by other libraries is made anew, and so is what is damaged.
    """
    made_of = {"vl-convert-python": version("vl-convert-python"), "snippet": snippet}
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody's home, so nothing is kept
        found = unseal((script_folder() / f"{name}.json").read_bytes(), required=True) or {}
        if {key: found.get(key) for key in made_of} == made_of and isinstance(found.get("script"), str):
            return str(found["script"])
    import vl_convert

    script = str(vl_convert.javascript_bundle(snippet))
    kept = f"{name}.json"  # which only saves time
    with suppress(OSError, RuntimeError), replace_file(script_folder() / kept, make_folder=True) as draft:
        draft.write_text(seal(made_of | {"script": script}), "utf-8")
    return script


def script_folder() -> Path:
    """Where scripts are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("unskew", appauthor=False)) / "scripts"
