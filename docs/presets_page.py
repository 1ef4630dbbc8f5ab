"""``python -m docs.presets_page`` prints all presets as a Markdown page."""

from __future__ import annotations

import re

from sb3_pvp.presets.presets import ALGO, Preset, presets

INTRODUCTION = """# Presets

Hyperparameters by name, for `sb3-pvp train --preset NAME`. Made by `make docs` from `hyperparams`; do not edit by hand.

`sb3-pvp presets NAME` prints all values of one, with those that it imports from others; [Train](train.md) says how to
change them."""


def render_page() -> str:
    """The Markdown page about all presets."""
    lines = [INTRODUCTION, "", "| Name | Game | What it is for |", "|---|---|---|"]
    found = presets()
    for name, preset in found.items():
        purpose = _purpose(preset).partition(". ")[0].rstrip(".")
        lines.append(f"| [`{name}`](#{name.lower()}) | `{preset.env_id}` | {purpose}. |")
    for name, preset in found.items():
        lines += ["", f"## {name}", "", _purpose(preset), "", "```yaml", *_block(preset), "```"]
    return "\n".join(lines)


def _purpose(preset: Preset) -> str:
    """The comment above the preset in its file."""
    comment = re.search(rf"((?:^#.*\n)+)\n?{re.escape(preset.env_id)}:", preset.path.read_text(), re.MULTILINE)
    return " ".join(comment[1].replace("#", " ").split()) if comment else ""


def _block(preset: Preset) -> list[str]:
    """The preset as it stands in its file, to the next one in the same file."""
    text = preset.path.read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(preset.env_id)}:\n(?:(?:[ ].*)?\n)*", text, re.MULTILINE)
    assert found is not None, f"{preset.name} of {ALGO} is not in {preset.path}"
    return found[0].rstrip().splitlines()


if __name__ == "__main__":
    print(render_page())
