"""``unskew datasets``: what there is."""

from unskew.cli import app


@app.command()
def datasets() -> None:
    """What data there is."""
