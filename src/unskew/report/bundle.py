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
    place = script_folder() / f"{name}.json"
    with suppress(OSError):
        found = unseal(place.read_bytes(), required=True) or {}
        if {key: found.get(key) for key in made_of} == made_of:
            return str(found["script"])
    import vl_convert

    script = str(vl_convert.javascript_bundle(snippet))
    with suppress(OSError), replace_file(place, make_folder=True) as draft:  # it only saves time
        draft.write_text(seal(made_of | {"script": script}), "utf-8")
    return script


def script_folder() -> Path:
    """Where scripts are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("unskew", appauthor=False)) / "scripts"
