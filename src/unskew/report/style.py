"""How a page looks: on a desk and on a phone, by day and at night, and on paper."""

from __future__ import annotations

from unskew.report.theme import BLUE, DARK_MODE, FONT, INK, MUTED, PAPER, RED, RULE

_NAMES = {"--ink": INK, "--muted": MUTED, "--rule": RULE, "--paper": PAPER}

COLOURS = {
    **{name: (colour, DARK_MODE[colour]) for name, colour in _NAMES.items()},
    "--desk": ("#f6f8fa", "#0d1014"),
    "--block": ("#f6f8fa", "#1d232b"),
    "--link": (BLUE, "#6cb6f0"),
    "--up": ("#00694c", "#4cc79b"),
    "--down": ("#b34700", "#ff9a5c"),
    "--alarm": ("#fdf4ef", "#2b1d15"),
    "--edge": (RED, RED),
}
"""Every colour of a page by name: by day, and at night."""

_LIGHT = "".join(f"{name}: {day}; " for name, (day, _) in COLOURS.items())
_DARK = "".join(f"{name}: {night}; " for name, (_, night) in COLOURS.items())

# charts are drawn in the colours of paper; at night the page lays its own over them, so that print and export keep them
_CHARTS = "".join(
    f'svg [{kind}="{colour}"] {{ {kind}: {night}; }} '
    for colour, night in DARK_MODE.items()
    for kind in ("fill", "stroke")
)

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT}}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ {_DARK}}}
  {_CHARTS}
  figure img {{ background: #fff; padding: 6px; border-radius: 4px; }}
  .vega-embed summary {{ opacity: .6; }}
  .vega-embed svg {{ background: var(--paper) !important; }}
}}
body {{ margin: 0; color: var(--ink); background: var(--desk); font: 15px/1.55 {FONT}; }}
main {{ max-width: 960px; min-height: 100vh; margin: 0 auto; padding: 40px 48px 24px;
  background: var(--paper); box-sizing: border-box; overflow-wrap: anywhere; }}
h1 {{ font-size: 28px; line-height: 1.25; margin: 0; letter-spacing: -0.01em; }}
h2 {{ font-size: 19px; margin: 44px 0 8px; }}
header p {{ color: var(--muted); margin: 8px 0 0; }}
p {{ max-width: 72ch; }}
.quiet, footer, figcaption {{ color: var(--muted); font-size: 13px; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; margin: 12px 0; overflow-wrap: normal; }}
th {{ text-align: left; font-weight: 600; border-bottom: 2px solid var(--ink); padding: 6px 14px 6px 0; }}
td {{ border-bottom: 1px solid var(--rule); padding: 9px 14px 9px 0; vertical-align: top; }}
th.number, td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
td.number {{ white-space: nowrap; }}
figure {{ margin: 20px 0 0; }}
footer {{ margin-top: 56px; padding-top: 12px; border-top: 1px solid var(--rule); }}
a {{ color: var(--link); }}
@media screen {{ .paper {{ display: none !important; }} }}
@media screen and (max-width: 700px) {{
  main {{ padding: 24px 16px; }}
  h1 {{ font-size: 23px; }}
  .vega-embed.has-actions {{ padding-right: 0; }} .vega-embed summary {{ display: none; }}
  table.stack, .stack tbody, .stack tr, .stack td {{ display: block; width: auto; }}
  .stack thead {{ display: none; }}
  .stack caption {{ display: block; padding-bottom: 8px; }}
  .stack tr {{ border-bottom: 1px solid var(--rule); padding: 8px 0; }}
  .stack td, .stack td.number {{ border: 0; padding: 1px 0; text-align: right; white-space: normal;
    overflow-wrap: anywhere; }}
  .stack td::before {{ content: attr(data-title); float: left; color: var(--muted); padding-right: 12px; }}
  .stack td::after {{ content: ""; display: block; clear: both; }}
  .stack td:first-child {{ text-align: left; font-weight: 600; }}
  .stack td:first-child small {{ font-weight: 400; }}
  .stack td:first-child::before, .stack td:empty {{ display: none; }}
}}
@media print {{ body {{ background: #fff; }} main {{ max-width: none; padding: 0; }}
  .screen, .vega-embed summary {{ display: none !important; }} .wide {{ overflow: visible; }}
  figure svg {{ max-width: 100%; max-height: 22cm; width: auto; height: auto; }}
  figure, tr, h2 {{ break-inside: avoid; }} h2 {{ break-after: avoid; }} }}
"""
