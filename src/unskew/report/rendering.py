"""HTML comes from the templates beside this file, where every value is escaped unless it is HTML already."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


@functools.cache
def environment(*packages: str) -> Environment:
    """Templates of these packages, and of the report's own where they have none of that name."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "unskew.report")]),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not a gap in a page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # in the order that charts were made in
    return made


def render(template: str, **values: Any) -> str:
    """A whole template with these values."""
    return environment().get_template(template).render(**values)


def piece(template: str, name: str) -> Callable[..., Markup]:
    """The macro of this name in a template: it makes a piece of a page of its arguments."""
    return cast("Callable[..., Markup]", getattr(environment().get_template(template).module, name))
