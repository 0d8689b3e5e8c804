"""How pages look, in the light and in the dark. Texts have a contrast of 4.5 or more to their ground."""

from collections.abc import Mapping
from typing import Final

LIGHT: Final = {
    "ground": "#ffffff",
    "panel": "#f5f6f8",
    "text": "#1c2026",
    "faint": "#59626d",
    "line": "#d5d9de",
    "link": "#0b5cad",
    "success": "#1b7737",
    "failure": "#c01f2b",
    "interrupted": "#8a5a00",
    "running": "#0b6a8f",
    "stopped": "#6b4fa0",
}
DARK: Final = {
    "ground": "#14171b",
    "panel": "#1d2126",
    "text": "#e4e7eb",
    "faint": "#9aa4af",
    "line": "#363c44",
    "link": "#7fb8f5",
    "success": "#4fbf6b",
    "failure": "#ff7f78",
    "interrupted": "#dba53a",
    "running": "#56bbdf",
    "stopped": "#b9a1ee",
}
INKS: Final = ("text", "faint", "link", "success", "failure", "interrupted", "running", "stopped")

_RULES: Final = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.25rem 3rem; max-width: 90rem; font: 15px/1.5 system-ui, sans-serif;
  background: var(--ground); color: var(--text); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
h3, h4 { font-size: 1rem; margin: .5rem 0 .25rem; overflow-wrap: anywhere; }
.card h4 { margin-top: 0; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.verdict { font-size: 1.2rem; font-weight: 600; }
h1.verdict { font-size: 1.6rem; }
.stages { margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.25rem; list-style: none; }
a { color: var(--link); }
pre, code, .mono { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.strong { font-weight: 600; }
.faint { color: var(--faint); }
.success { color: var(--success); }
.failure { color: var(--failure); }
.interrupted { color: var(--interrupted); }
.running { color: var(--running); }
.stopped { color: var(--stopped); }
tr:target, section:target > h3 { background: var(--panel); outline: 2px solid var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem; background: var(--ground); }
nav ul { margin: .75rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.25rem; list-style: none; }
.card { margin: .5rem 0; padding: .75rem 1rem; border-left: 4px solid var(--line); background: var(--panel); }
.card.failure { color: inherit; border-color: var(--failure); }
.card.interrupted { color: inherit; border-color: var(--interrupted); }
dl { display: grid; grid-template-columns: minmax(5rem, max-content) minmax(0, 1fr); gap: .15rem 1rem;
  margin: .5rem 0 0; }
dt { color: var(--faint); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--link); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 6rem; }
td.number { min-width: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart { list-style: none; margin: .75rem 0; padding: 0; }
.chart li { display: grid; grid-template-columns: min(var(--label), 30%) 5.5rem minmax(0, 1fr);
  column-gap: .75rem; align-items: center; }
.chart li:not(.axis):hover { background: var(--panel); }
.chart .label { overflow-wrap: anywhere; line-height: 1.25; padding: .1rem 0; }
.chart .took { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart svg { display: block; width: 100%; height: 24px; overflow: hidden; }
.chart svg text { font-size: 11px; fill: var(--faint); }
.chart svg line { stroke: var(--line); }
.chart svg a text { font-size: 12px; font-weight: 600; stroke: none !important; }
.chart svg rect { stroke-width: 1.5px; rx: 1px; }
.chart svg .success { fill: var(--success); stroke: var(--success); }
.chart svg .failure { fill: var(--failure); stroke: var(--failure); }
.chart svg .interrupted { fill: var(--interrupted); stroke: var(--interrupted); }
.chart svg .running { fill: var(--running); stroke: var(--running); }
.chart svg .stopped { fill: var(--stopped); stroke: var(--stopped); }
.chart svg rect.failure { fill: url(#hatched); }
.chart svg rect.interrupted { fill: var(--ground); stroke-dasharray: 3 2; }
.chart svg rect.running { fill-opacity: .45; }
.chart svg rect.stopped { fill: var(--ground); }
.chart svg a:focus-visible { outline: none; }
.chart svg a:focus-visible rect, .chart svg a:hover rect { stroke: var(--text); stroke-width: 3px; }
.chart svg rect.cut { fill: url(#broken); stroke: none; pointer-events: none; }
#broken rect { fill: var(--ground); }
#broken path { stroke: var(--faint); stroke-width: 1; }
#hatched rect { fill: var(--failure); fill-opacity: .35; }
#hatched path { stroke: var(--failure); stroke-width: 3; }
.depth-1 .label { padding-left: 1.25rem; }
.depth-2 .label { padding-left: 2.5rem; }
.depth-3 .label { padding-left: 3.75rem; }
.depth-4 .label { padding-left: 5rem; }
@media (max-width: 44rem) {
  body { padding: .5rem .75rem 2rem; }
  .chart li { grid-template-columns: minmax(0, 1fr) max-content; }
  .chart li svg { grid-column: 1 / -1; }
  .chart .axis span { display: none; }
  .chart .minor { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dt { margin-top: .35rem; }
}
svg[aria-hidden] { position: absolute; }
@media print { .skip, nav { display: none; } }
"""


def stylesheet() -> str:
    """Return the style of every page."""
    dark = f"@media (prefers-color-scheme: dark) {{ {_colors(DARK)} }}"
    return f"\n:root {{ color-scheme: light dark; }}\n{_colors(LIGHT)}\n{dark}{_RULES}"


def _colors(palette: Mapping[str, str]) -> str:
    return ":root { " + " ".join(f"--{name}: {color};" for name, color in palette.items()) + " }"
