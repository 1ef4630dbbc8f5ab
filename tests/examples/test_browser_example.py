"""The page that examples/browser makes decides as Python does, without a server."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from sb3_pvp import load
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies.files.fighter_files import export_fighter
from tests.arena.page.browser import PATIENCE, chromium
from tests.paths import ROOT

sync_api = pytest.importorskip("playwright.sync_api")
OBSERVATIONS = 1_000


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    if not (ROOT / "examples/browser/node_modules").is_dir():
        if os.environ.get("SB3_PVP_REQUIRE_BROWSER"):
            pytest.fail("npm install --prefix examples/browser --no-package-lock --ignore-scripts")
        pytest.skip("needs onnxruntime-web, by npm")
    from examples.browser.make_page import main

    export_fighter(load("fast"), tmp_path / "fast.fighter")
    return main(tmp_path / "fast.fighter", tmp_path / "fight.html")


def test_the_page_decides_as_python_does(page_file: Path) -> None:
    env, fighter = PvpVecEnv(50, game="NhEnv", opponent="scripted", seed=3), load("fast")
    seen, masks, expected = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    observations = env.reset()
    for _ in range(OBSERVATIONS // env.num_envs):
        seen.append(observations["observation"])
        masks.append(observations["action_mask"])
        expected.append(fighter.predict(observations, deterministic=True)[0])
        observations, *_ = env.step(fighter.predict(observations, deterministic=False)[0])
    numbers = b64encode(np.concatenate(seen).astype(np.float32).tobytes()).decode()
    legal = np.concatenate(masks).astype(int)
    decide_all = """async ([numbers, masks]) => {
        const bytes = Uint8Array.from(atob(numbers), (letter) => letter.charCodeAt(0));
        const seen = new Float32Array(bytes.buffer), size = seen.length / masks.length, actions = [];
        for (const [row, mask] of masks.entries())
            actions.push((await decide(seen.slice(row * size, (row + 1) * size), Uint8Array.from(mask))).action);
        return actions;
    }"""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844}, offline=True)
        page.set_default_timeout(PATIENCE)
        wrong = list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
        page.goto(page_file.as_uri())
        page.wait_for_function("globalThis.isReady")
        actions = np.array(page.evaluate(decide_all, [numbers, legal.tolist()]))
        page.locator("#tick").fill("5")
        page.get_by_text("5 of ").wait_for()
        assert page.locator(".entry.chosen").count() >= 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()
    assert wrong == []
    np.testing.assert_array_equal(actions, np.concatenate(expected))
